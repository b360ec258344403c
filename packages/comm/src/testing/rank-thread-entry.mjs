// The entry file of a worker thread. It imports the loader that the caller has chosen, then the program.
import { workerData } from 'node:worker_threads';

if (workerData.preload !== undefined) await import(workerData.preload);
if (workerData.loader !== undefined) (await import(workerData.loader)).register();
const own = new URL(import.meta.url);
// the sources are .mjs and .ts files, the build has .js files
const rest = own.pathname.endsWith('.mjs') ? './rank-thread.ts' : './rank-thread.js';
const { runRankThread } = await import(new URL(rest, own).href);
await runRankThread(workerData);
