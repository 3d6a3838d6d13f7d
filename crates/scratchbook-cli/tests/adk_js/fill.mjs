// Has the DatabaseSessionService of ADK for TypeScript fill a database, and prints what it reports of it.
//
//     fill.mjs libsql PATH        a SQLite file
//     fill.mjs url URL            whatever database the URL names

import {DatabaseSessionService, createEvent, createEventActions} from '@google/adk';
import {LibSqlDriver} from '@mikro-orm/libsql';

const [kind, place] = process.argv.slice(2);
const service = new DatabaseSessionService(kind === 'libsql' ? {driver: LibSqlDriver, dbName: place} : place);
const START = 1_795_194_000_000;
let count = 0;

/** Appends an event, some milliseconds after the one before. */
async function say(session, more) {
  count += 1;
  const made = createEvent({author: 'agent', invocationId: `i${count}`, timestamp: START + 7 * count, ...more});
  // What a summary is, createEvent leaves out.
  return service.appendEvent({session, event: Object.assign(made, more, {actions: createEventActions(more.actions)})});
}

const of = {appName: 'shop', userId: 'alice'};
const state = {first: 1, kept: {a_b: 1, aB: [null]}, 'user:theme': 'light', 'app:tax': 0.08, 'temp:gone': 1};
const first = await service.createSession({...of, sessionId: 'first', state});
await say(first, {author: 'user', content: {role: 'user', parts: [{text: 'tea, Zoë 🛒'}]}});
await say(first, {
  content: {role: 'model', parts: [{functionCall: {id: 'c1', name: 'order', args: {my_key: 1, aB: 2}}}]},
  longRunningToolIds: ['c1'],
  usageMetadata: {promptTokenCount: 7},
  actions: {
    stateDelta: {n: 2, first: null, 'user:theme': 'dark', 'app:orders': 1, 'temp:t': 1},
    artifactDelta: {'bill.txt': 2},
    requestedToolConfirmations: {'adk-a_b': {hint: 'Sure?', confirmed: false}},
    transferToAgent: 'till',
  },
});
await say(first, {
  output: {cups: 2},
  nodeInfo: {path: 'shop', outputFor: ['till'], messageAsOutput: true},
  actions: {agentState: {node: 1}, endOfAgent: true},
});
await say(first, {
  isCompacted: true,
  startTime: START + 7,
  endTime: START + 21,
  compactedContent: 'Tea was ordered.',
});
// Several in one second, and some in one millisecond, with ids that do not rise.
const many = await service.createSession({...of, userId: 'bob', sessionId: 'many', state: {n: 0}});
for (let n = 1; n <= 30; n++) {
  const timestamp = START + 1000 + 3 * Math.floor(n / 2);
  await say(many, {id: `e-${(n * 17) % 31}`, timestamp, actions: {stateDelta: {n, 'user:n': n}}});
}
await service.createSession({...of, sessionId: 'empty'});

const sessions = [];
for (const {userId, id: sessionId} of [
  {userId: 'alice', id: 'first'},
  {userId: 'alice', id: 'empty'},
  {userId: 'bob', id: 'many'},
]) {
  sessions.push(await service.getSession({appName: 'shop', userId, sessionId}));
}
console.log(JSON.stringify(sessions));
process.exit(0);
