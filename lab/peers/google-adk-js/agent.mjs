// An agent whose model is scripted: it calls a tool that writes state, and then answers with text.

import {BaseLlm, FunctionTool, LlmAgent, Runner} from '@google/adk';
import {z} from 'zod';
import {APP} from './data.mjs';

/** Answers a result of the tool with text, and everything else with a call of the tool. */
class Scripted extends BaseLlm {
  async *generateContentAsync(request) {
    const isAnswered = request.contents.at(-1).parts.some((part) => part.functionResponse);
    const part = isAnswered ? {text: 'It is done.'} : {functionCall: {name: 'book', args: {room: 'lake'}}};
    yield {content: {role: 'model', parts: [part]}};
  }

  async connect() {
    throw new Error('the scripted model has no live connection');
  }
}

const book = new FunctionTool({
  name: 'book',
  description: 'Books a room.',
  parameters: z.object({room: z.string()}),
  execute: ({room}, context) => {
    context.state.set('step', `booked ${room}`);
    context.state.set('user:last', room);
    return {booked: room};
  },
});

export function runner(sessionService) {
  const model = new Scripted({model: 'scripted'});
  const agent = new LlmAgent({name: 'agent', model, instruction: 'Book rooms.', tools: [book]});
  return new Runner({appName: APP, agent, sessionService});
}

/** Lets the agent answer a message; returns the text of the answer. */
export async function turn(runner, session) {
  const newMessage = {role: 'user', parts: [{text: 'A room by the lake, please.'}]};
  let text = '';
  for await (const one of runner.runAsync({userId: session.userId, sessionId: session.id, newMessage})) {
    text = one.content?.parts?.at(-1)?.text ?? '';
  }
  return text;
}
