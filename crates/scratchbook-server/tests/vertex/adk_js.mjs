// ADK for TypeScript over the endpoint: `adk_js.mjs URL` fails if its VertexAiSessionService or its Runner does not get
// what it needs.

import assert from 'node:assert/strict';

import {
  BaseLlm,
  FunctionTool,
  LlmAgent,
  LogLevel,
  Runner,
  createEvent,
  createEventActions,
  setLogLevel,
} from '@google/adk';

import {scratchbookSessions} from './sessions.mjs';

const url = process.argv[2];
const service = scratchbookSessions(url, 'shop');
const of = {appName: 'shop', userId: 'alice'};
setLogLevel(LogLevel.ERROR);

/** Returns a session as the service returns it. */
const get = (sessionId, config) => service.getSession({...of, sessionId, config});

/** Returns an event's data as a plain object, without its class. */
const plain = (event) => JSON.parse(JSON.stringify(event));

/** An event of the TypeScript ADK, at a time of its own. */
function event(at, more) {
  const made = createEvent({author: 'agent', invocationId: 'i1', timestamp: 1_795_194_000_000 + at, ...more});
  // createEvent leaves out the fields of a summary.
  return Object.assign(made, more, {actions: createEventActions(more.actions)});
}

async function eventsComeBackAsTheyWere() {
  let state = {cart: [], 'user:theme': 'light', 'app:open': true, 'temp:x': 1};
  const made = await service.createSession({...of, sessionId: 'events', state});
  delete state['temp:x'];
  assert.deepEqual(made.state, state);
  const sent = [
    event(1, {author: 'user', content: {role: 'user', parts: [{text: 'tea, please'}]}}),
    event(2, {
      content: {role: 'model', parts: [{functionCall: {id: 'c1', name: 'order', args: {item: 'tea', n: 2}}}]},
      longRunningToolIds: ['c1'],
      usageMetadata: {promptTokenCount: 7, totalTokenCount: 9},
      customMetadata: {own: [1, null]},
      actions: {
        stateDelta: {cart: ['tea'], none: null, 'user:theme': 'dark', 'app:orders': 1, 'temp:t': 1},
        artifactDelta: {'bill.txt': 2},
        transferToAgent: 'till',
        skipSummarization: true,
        requestedAuthConfigs: {c1: {authScheme: {type: 'oauth2'}}},
        requestedToolConfirmations: {c1: {hint: 'Sure?', confirmed: false, payload: {days: 1}}},
      },
    }),
    event(3, {
      branch: 'shop.till',
      output: {tea: 2},
      route: ['left', 'right'],
      nodeInfo: {path: 'shop.till', outputFor: ['shop'], messageAsOutput: true},
      isolationScope: 'scope',
      actions: {agentState: {at: 'node'}, endOfAgent: true, escalate: false},
    }),
    event(4, {
      isCompacted: true,
      startTime: 1_795_194_000_001,
      endTime: 1_795_194_000_003,
      compactedContent: 'Tea was ordered.',
    }),
    event(5, {errorCode: 'E', errorMessage: 'not quite', turnComplete: true, interrupted: false}),
  ];
  for (const event of sent) {
    await service.appendEvent({session: made, event});
  }
  state = {cart: ['tea'], none: null, 'user:theme': 'dark', 'app:open': true, 'app:orders': 1};
  const read = await get('events');
  assert.deepEqual(read.state, state);
  // ADK may read a summary from this field too, in addition to its own fields.
  delete read.events[3].actions.compaction;
  const shown = read.events.map(plain);
  for (const [n, event] of sent.map(plain).entries()) {
    for (const [name, value] of Object.entries(event)) {
      assert.deepEqual(shown[n][name], value, `${name} of event ${n + 1}`);
    }
  }
  assert.deepEqual(shown[1].customMetadata, {own: [1, null]});
  assert.equal(shown[2].customMetadata, undefined);
  assert.equal(read.lastUpdateTime, sent.at(-1).timestamp);
  assert.deepEqual((await get('events', {numRecentEvents: 2})).events.map((e) => e.id), [sent[3].id, sent[4].id]);
  const after = await get('events', {afterTimestamp: sent[2].timestamp});
  assert.equal(after.events.length, 3);
}

async function sessionsAreListedAndDeleted() {
  for (const sessionId of ['s1', 's2']) {
    await service.createSession({...of, userId: 'bob', sessionId});
  }
  const ids = async () => (await service.listSessions({...of, userId: 'bob'})).sessions.map((s) => s.id).sort();
  assert.deepEqual(await ids(), ['s1', 's2']);
  await service.deleteSession({...of, userId: 'bob', sessionId: 's1'});
  assert.deepEqual(await ids(), ['s2']);
  // Version 1 does not find the status in its client's errors, and throws.
  const missing = service.getSession({...of, userId: 'bob', sessionId: 's1'});
  assert.equal(await missing.catch((error) => (error.status === 404 ? undefined : error)), undefined);
  await assert.rejects(service.createSession({...of, userId: 'bob', sessionId: 's2'}), /ALREADY_EXISTS|taken|exists/);
}

/** A model that calls a tool and then says what the tool has answered. */
class Scripted extends BaseLlm {
  constructor() {
    super({model: 'scripted'});
  }

  async *generateContentAsync(request) {
    const answer = request.contents.at(-1).parts[0].functionResponse;
    const part = answer
      ? {text: `Ordered ${answer.response.ordered}.`}
      : {functionCall: {id: 'c1', name: 'order', args: {}}};
    yield {content: {role: 'model', parts: [part]}, usageMetadata: {totalTokenCount: 3}};
  }

  async connect() {
    throw new Error('not live');
  }
}

async function aRunIsKept() {
  const order = new FunctionTool({
    name: 'order',
    description: 'Orders tea.',
    execute: (_, context) => {
      context.state.set('ordered', 'tea');
      context.state.set('user:orders', 1);
      return {ordered: 'tea'};
    },
  });
  const agent = new LlmAgent({name: 'shop', model: new Scripted(), tools: [order], outputKey: 'said'});
  const runner = new Runner({appName: 'shop', agent, sessionService: service});
  const session = await service.createSession({...of, sessionId: 'run'});
  const seen = [];
  const newMessage = {role: 'user', parts: [{text: 'tea, please'}]};
  for await (const event of runner.runAsync({userId: 'alice', sessionId: session.id, newMessage})) {
    seen.push(event.id);
  }
  const read = await get('run');
  assert.deepEqual(read.events.slice(-seen.length).map((e) => e.id), seen);
  assert.equal(seen.length, 3);
  assert.equal(read.events[0].content.parts[0].text, 'tea, please');
  const {ordered, said, 'user:orders': orders} = read.state;
  assert.deepEqual({ordered, said, orders}, {ordered: 'tea', said: 'Ordered tea.', orders: 1});
}

await eventsComeBackAsTheyWere();
await sessionsAreListedAndDeleted();
await aRunIsKept();
