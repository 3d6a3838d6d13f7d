// The data of every cell, equal in all runners.

import {createEvent, createEventActions} from '@google/adk';

export const APP = 'bench';

const SENTENCE =
  'The customer asked for a quiet room with a view of the lake, breakfast included, from Friday to Sunday. ';
/** What an event says: 300 characters. */
const TEXT = SENTENCE.repeat(3).slice(0, 300);

/** The state with which a session begins. */
export const CREATED = {topic: 'a room by the lake', step: 'asked'};

/** The state of a session that is created with this many keys, but with two at least. */
export function created(count) {
  const more = {};
  for (let n = 3; n <= count; n++) more[`key-${n}`] = `value ${n}`;
  return {...CREATED, ...more};
}

export const user = (number) => `user-${number}`;

/** A state with this many keys of the session. */
export const keys = (count) => Object.fromEntries(Array.from({length: count}, (_, n) => [`key-${n}`, `value ${n}`]));

/** The change of an event: one key of the session and one of the user. */
export const delta = (writer, number) => ({
  step: `step ${writer} ${number}`,
  'user:last': `last ${writer} ${number}`,
});

/** An agent's event, whose invocation id says whose it is and which one. */
export function event(writer, number, stateDelta) {
  return createEvent({
    author: 'agent',
    invocationId: `e.${writer}.${number}`,
    content: {role: 'model', parts: [{text: TEXT}]},
    actions: createEventActions({stateDelta}),
  });
}

/** The writer of an event, and which of its events it is. */
export const origin = (one) => one.invocationId.split('.').slice(1).map(Number);
