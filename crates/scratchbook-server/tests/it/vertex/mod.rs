//! Vertex AI's surface: through the router, and by Google's own clients.

mod google;
