// ADK for TypeScript's sessions in scratchbook, by its own client of Agent Engine Sessions.

import {Sessions} from '@google-cloud/vertexai/build/src/genai/sessions.js';
import {VertexAiSessionService} from '@google/adk';
import {ApiClient} from '@google/genai/vertex_internal';

/** The session service of an engine of `scratchbook serve`; the engine is the app on the server. */
export function scratchbookSessions(url, engine, token = 'none') {
  const client = new ApiClient({
    auth: {addAuthHeaders: async (headers) => headers.set('Authorization', `Bearer ${token}`)},
    project: 'scratchbook',
    location: 'local',
    vertexai: true,
    httpOptions: {baseUrl: url},
  });
  return new VertexAiSessionService({
    projectId: 'scratchbook',
    location: 'local',
    agentEngineId: engine,
    sessions: new Sessions(client),
  });
}
