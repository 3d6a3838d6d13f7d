// The session services, each in its best published configuration; and their preparation in bulk.

import {randomUUID} from 'node:crypto';
import {statSync} from 'node:fs';
import {join} from 'node:path';

import {DatabaseSessionService, InMemorySessionService} from '@google/adk';
import {LibSqlDriver} from '@mikro-orm/libsql';
import {PostgreSqlDriver} from '@mikro-orm/postgresql';
import {CREATED, delta, event} from './data.mjs';
import {Unsupported} from './measure.mjs';

/** How many connections to PostgreSQL are held. */
const CONNECTIONS = 16;
/** How many rows are one statement. */
const GROUP = 500;

/** A service, and what is known of its store. */
export class Store {
  constructor(kind, service, configuration, file) {
    Object.assign(this, {kind, service, configuration, file});
  }

  static async open(kind, location) {
    if (kind === 'memory') return new Store(kind, new InMemorySessionService(), 'as it comes');
    if (kind === 'postgres') {
      const pool = {min: CONNECTIONS, max: CONNECTIONS};
      const service = new DatabaseSessionService({driver: PostgreSqlDriver, clientUrl: location, pool});
      await service.init();
      return new Store(kind, service, `MikroORM, ${CONNECTIONS} held connections`);
    }
    if (kind !== 'sqlite') throw new Error(`the store '${kind}' is not one of memory, sqlite, postgres`);
    const file = join(location, 'sessions.db');
    const service = new DatabaseSessionService({driver: LibSqlDriver, dbName: file});
    await service.init();
    await service.orm.em.getConnection().execute('PRAGMA journal_mode = WAL');
    return new Store(kind, service, 'MikroORM with libsql, WAL mode, synchronous as it comes', file);
  }

  /** Gives a session events, numbered from 0, of the writer -1; the last one as a program does. */
  async fill(session, count, preparation) {
    for (let first = 0; first < count - 1; first += GROUP) {
      const length = Math.min(GROUP, count - 1 - first);
      await this.#add(
        session,
        Array.from({length}, (_, n) => event(-1, first + n, delta(-1, first + n))),
      );
      preparation.advance(length);
    }
    if (count > 0) await this.service.appendEvent({session, event: event(-1, count - 1, delta(-1, count - 1))});
  }

  async #add({appName, userId, id: sessionId}, events) {
    if (this.kind === 'memory') {
      this.service.sessions[appName][userId][sessionId].events.push(...events);
      return;
    }
    const rows = events.map((one) => ({
      ...{id: one.id, appName, userId, sessionId, invocationId: one.invocationId},
      timestamp: new Date(one.timestamp),
      eventData: one,
    }));
    await this.service.orm.em.fork().insertMany('StorageEvent', rows);
  }

  /** Creates a session for each entry. */
  async fillSessions(appName, users, preparation) {
    for (let first = 0; first < users.length; first += GROUP) {
      const group = users.slice(first, first + GROUP);
      if (this.kind === 'memory') {
        for (const userId of group) await this.service.createSession({appName, userId, state: CREATED});
      } else {
        const now = new Date();
        const rest = {appName, state: CREATED, createTime: now, updateTime: now};
        const rows = group.map((userId) => ({id: randomUUID(), userId, ...rest}));
        await this.service.orm.em.fork().insertMany('StorageSession', rows);
      }
      preparation.advance(group.length);
    }
  }

  /** How many bytes the store has on the disk. */
  async disk() {
    if (this.kind === 'memory') throw new Unsupported('this store keeps nothing on a disk.');
    const connection = this.service.orm.em.getConnection();
    if (this.kind === 'sqlite') {
      await connection.execute('PRAGMA wal_checkpoint(TRUNCATE)');
      return statSync(this.file).size;
    }
    const [row] = await connection.execute('SELECT pg_database_size(current_database()) AS bytes');
    return Number(row.bytes);
  }
}
