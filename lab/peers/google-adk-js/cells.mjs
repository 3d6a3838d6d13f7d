// The workloads.

import {spawnSync} from 'node:child_process';
import {mkdirSync} from 'node:fs';
import {join} from 'node:path';

import {runner, turn} from './agent.mjs';
import {Wrong} from './check.mjs';
import {APP, CREATED, created, delta, event, keys, origin, user} from './data.mjs';
import {Measured, Preparation, Unsupported, repeat} from './measure.mjs';

/** How many sessions a listing is to find. */
const SESSIONS_OF_A_USER = 10;
/** How many events are made at least to measure the memory of one. */
const EVENTS_IN_MEMORY = 10_000;
/** How many events are prepared at most for turns. */
const TURN_EVENTS = 2_000;
/** Over how many sessions the turns of a task are spread at most, so that the sessions' length hardly changes. */
const TURN_SESSIONS = 32;
/** How many events each task writes to a shared session. */
const SHARED_EVENTS = 25;

function expect(isRight, what) {
  if (!isRight) throw new Error(what);
}

/** The answer of a cell that counts bytes. */
function perEvent(events, begun, grown) {
  const seconds = (performance.now() - begun) / 1000;
  const rest = {processor_seconds: null, latencies_us: null, wrong: null, note: null};
  return {operations: events, seconds, bytes: Math.round(grown / events), ...rest};
}

/** Every workload on one store, and what was prepared for later rounds. */
export class Cells {
  #store;
  #service;
  #runner;
  #users = 0;
  #long = new Map();
  #listed = new Set();

  constructor(store) {
    this.#store = store;
    this.#service = store.service;
    this.#runner = runner(store.service);
  }

  /** A new session of a new user, with this many events. */
  async #session(events, preparation, state = CREATED) {
    const session = await this.#service.createSession({appName: APP, userId: user(this.#users++), state});
    await this.#store.fill(session, events, preparation);
    return session;
  }

  async #sessions(number, events) {
    const preparation = new Preparation(number * Math.max(events, 1));
    const sessions = [];
    for (let n = 0; n < number; n++) sessions.push(await this.#session(events, preparation));
    return sessions;
  }

  async #read({appName, userId, id: sessionId}, numRecentEvents) {
    const config = numRecentEvents === undefined ? undefined : {numRecentEvents};
    return this.#service.getSession({appName, userId, sessionId, config});
  }

  /** Appends; after a refusal reads the session again and tries again, as an honest program does. */
  async #insist(sessions, place, make, wrong) {
    for (;;) {
      try {
        await this.#service.appendEvent({session: sessions[place], event: make()});
        return;
      } catch (error) {
        if (!/stale|locked|busy|deadlock|could not serialize|optimistic/i.test(`${error}`)) throw error;
        wrong.refused += 1;
        sessions[place] = await this.#read(sessions[place]);
      }
    }
  }

  async create({size, tasks, seconds}) {
    const state = created(size);
    const step = (task) => this.#service.createSession({appName: APP, userId: user(task), state});
    return (await repeat(tasks, seconds, step)).answer;
  }

  async append(request, isHot = false) {
    return this.#append(request, await this.#sessions(request.tasks, request.size), isHot);
  }

  append_hot(request) {
    return this.append(request, true);
  }

  async state(request) {
    const sessions = [];
    for (let n = 0; n < request.tasks; n++) {
      sessions.push(await this.#session(0, new Preparation(1), keys(request.size)));
    }
    return this.#append(request, sessions, false);
  }

  /** Each task appends to its own session. Afterwards every session is read back. */
  async #append({tasks, seconds}, sessions, isHot) {
    const hot = (task, number) => (isHot ? {'app:hot': `hot ${task} ${number}`} : {});
    const wrong = new Wrong();
    const {answer, done} = await repeat(tasks, seconds, (task, number) => {
      const make = () => event(task, number, {...delta(task, number), ...hot(task, number)});
      return this.#insist(sessions, task, make, wrong);
    });
    for (let task = 0; task < tasks; task++) {
      const acknowledged = Array.from({length: done[task]}, (_, number) => [task, number]);
      const {stored, state} = await this.#stored(sessions[task], done[task] + 100);
      const last = Object.entries(delta(task, done[task] - 1));
      const isThere = last.every(([key, value]) => state[key] === value);
      wrong.compare(acknowledged, stored, isThere ? [] : acknowledged.slice(-1));
      if (isHot && task === 0) {
        wrong.lost += done.some((count, writer) => hot(writer, count - 1)['app:hot'] === state['app:hot']) ? 0 : 1;
      }
    }
    return {...answer, wrong: wrong.counts()};
  }

  /**
   * Each task appends 25 events to one session, with keys of its own, and holds what it read at the beginning. New
   * sessions follow until the time is over.
   */
  async append_shared(request) {
    const wrong = new Wrong();
    const measured = new Measured();
    const begun = performance.now();
    do {
      await this.#share(request, wrong, measured);
    } while (performance.now() - begun < request.seconds * 1000);
    const answer = measured.answer();
    return {...answer, attempted: answer.operations + wrong.refused, wrong: wrong.counts()};
  }

  async #share({size, tasks}, wrong, measured) {
    const [first] = await this.#sessions(1, size);
    const held = [];
    for (let task = 0; task < tasks; task++) held.push(await this.#read(first));
    const step = (task, number) => {
      const make = () => event(task, number, {[`key-${task}-${number}`]: 'written'});
      return this.#insist(held, task, make, wrong);
    };
    const done = await measured.part(tasks, step, (_, done) => done === SHARED_EVENTS);
    const acknowledged = done.flatMap((count, task) => Array.from({length: count}, (_, number) => [task, number]));
    const {stored, state} = await this.#stored(first, acknowledged.length * 2 + 100);
    const lacking = acknowledged.filter(([task, number]) => !(`key-${task}-${number}` in state));
    wrong.compare(acknowledged, stored, lacking);
  }

  /** The origins of the last events of a session, in its order, and its state. */
  async #stored(session, most) {
    const {events, state} = await this.#read(session, most);
    return {stored: events.map(origin).filter(([writer]) => writer >= 0), state};
  }

  /** A session that is only read, and kept for later rounds. */
  async #longSession(size) {
    if (!this.#long.has(size)) this.#long.set(size, (await this.#sessions(1, size))[0]);
    return this.#long.get(size);
  }

  async get({size, tasks, seconds}) {
    const session = await this.#longSession(size);
    const step = async () => expect((await this.#read(session)).events.length === size, 'events are missing');
    return (await repeat(tasks, seconds, step)).answer;
  }

  async get_json({size, tasks, seconds}) {
    const session = await this.#longSession(size);
    const step = async () =>
      expect(JSON.stringify(await this.#read(session)).length > size * 300, 'the text of the session is too short');
    return (await repeat(tasks, seconds, step)).answer;
  }

  async get_recent({size, tasks, seconds}) {
    const session = await this.#longSession(size);
    const expected = Math.min(10, size);
    const step = async () =>
      expect((await this.#read(session, 10)).events.length === expected, 'events are missing');
    return (await repeat(tasks, seconds, step)).answer;
  }

  async list({size, tasks, seconds}) {
    const names = {appName: `${APP}-${size}`, userId: user(1)};
    if (!this.#listed.has(size)) {
      const users = Array.from({length: size}, (_, n) => user(Math.floor(n / SESSIONS_OF_A_USER)));
      await this.#store.fillSessions(names.appName, users, new Preparation(size));
      this.#listed.add(size);
    }
    const step = async () => {
      const {sessions} = await this.#service.listSessions(names);
      expect(sessions.length === SESSIONS_OF_A_USER, `${sessions.length} sessions in the listing`);
    };
    return (await repeat(tasks, seconds, step)).answer;
  }

  async turn({size, tasks, seconds}) {
    const each = Math.max(1, Math.min(TURN_SESSIONS, Math.floor(TURN_EVENTS / size)));
    const sessions = await this.#sessions(tasks * each, size);
    // The first run loads much of the framework.
    await turn(this.#runner, (await this.#sessions(1, 0))[0]);
    const step = async (task, number) => {
      const text = await turn(this.#runner, sessions[task * each + (number % each)]);
      expect(text === 'It is done.', `the agent says '${text}'`);
    };
    return (await repeat(tasks, seconds, step)).answer;
  }

  /** The growth of the database for each event of a session. */
  async size_on_disk({size}) {
    const before = await this.#store.disk();
    const begun = performance.now();
    await this.#sessions(1, size);
    return perEvent(size, begun, (await this.#store.disk()) - before);
  }

  /** The growth of the resident memory for each event, in as many sessions as some ten thousand events take. */
  async memory({size}) {
    if (this.#store.kind !== 'memory') throw new Unsupported('this store keeps sessions in a database.');
    const number = Math.max(1, Math.floor(EVENTS_IN_MEMORY / size));
    const before = process.memoryUsage().rss;
    const begun = performance.now();
    await this.#sessions(number, size);
    const answer = perEvent(number * size, begun, process.memoryUsage().rss - before);
    return {...answer, note: 'the events share one text'};
  }

  /** Starts this program again, on a store of its own, until it has created a session. */
  async cold_start({seconds}) {
    const [, program, kind, location] = process.argv;
    const step = async (_, number) => {
      let place = location;
      if (!location.includes('://')) {
        place = join(location, `start-${process.pid}-${Date.now()}-${number}`);
        mkdirSync(place, {recursive: true});
      }
      const input = '{"workload": "create", "seconds": 0}\n';
      const {stdout} = spawnSync(process.execPath, [program, kind, place], {input, encoding: 'utf8'});
      expect(JSON.parse(stdout.split('\n')[1]).operations === 1, `a cold start answers ${stdout}`);
    };
    // The processor time of the children is not known here.
    return {...(await repeat(1, seconds, step)).answer, processor_seconds: null};
  }
}
