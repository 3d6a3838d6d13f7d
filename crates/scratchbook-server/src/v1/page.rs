use axum::response::Html;
pub(super) async fn get() -> Html<&'static str> { Html("") }
