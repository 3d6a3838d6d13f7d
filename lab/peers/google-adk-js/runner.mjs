// A runner of ADK for TypeScript: `node runner.mjs memory|sqlite|postgres LOCATION`.

import {readFileSync} from 'node:fs';
import {createInterface} from 'node:readline';

import {LogLevel, setLogLevel} from '@google/adk';
import {Cells} from './cells.mjs';
import {Unsupported} from './measure.mjs';
import {Store} from './store.mjs';

const WORKLOADS =
  'create append append_hot append_shared get get_json get_recent list state turn size_on_disk memory cold_start';

setLogLevel(LogLevel.ERROR);
// What libraries print goes to standard error.
console.log = console.info = console.error;
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

const [kind, location] = process.argv.slice(2);
const store = await Store.open(kind, location);
const lock = JSON.parse(readFileSync(new URL('package-lock.json', import.meta.url), 'utf8'));
say({
  system: 'google-adk-js',
  service: store.service.constructor.name.replace(/^_/, ''),
  version: lock.packages['node_modules/@google/adk'].version,
  store: kind,
  configuration: `${store.configuration}; node ${process.versions.node}`,
});

const cells = new Cells(store);
async function answer(line) {
  try {
    const request = {size: 0, tasks: 1, seconds: 1, ...JSON.parse(line)};
    if (request.workload.startsWith('http_')) {
      throw new Unsupported('the server is a package of its own, @google/adk-devtools, which is not set up here.');
    }
    if (!WORKLOADS.split(' ').includes(request.workload)) {
      throw new Unsupported(`the runner has no workload '${request.workload}'.`);
    }
    return await cells[request.workload](request);
  } catch (error) {
    if (error instanceof Unsupported) return {unsupported: error.message};
    console.error(error);
    return {error: `${error}`.slice(0, 300)};
  }
}
for await (const line of createInterface({input: process.stdin})) say(await answer(line));
process.exit(0);
