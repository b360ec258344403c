// npm run dev -- collectives: measures messages to the store, the local engine with 2 and 8 ranks, and gloo
// over the loopback interface, after checking the results. In the runs with gloo, ranks simulate separate
// hosts: two or three hosts with one rank each, and two hosts with two ranks each.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { glooProblem } from '@mtl/comm';
import { printStoreRoundTrips } from './store-round-trips.js';

const loader = import.meta.resolve('@mtl/tooling/typescript-loader');
const program = fileURLToPath(new URL('./benchmark-rank.ts', import.meta.url));

async function runRanks(size: number, hosts?: readonly number[]): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'mtl-comm-bench-'));
  const ended = Array.from({ length: size }, (_, rank) => {
    const args = ['--conditions=@mtl/source', '--import', loader, program];
    const where = hosts === undefined ? [] : [JSON.stringify(hosts)];
    const child = spawn(process.execPath, [...args, String(rank), String(size), directory, ...where], {
      stdio: 'inherit',
    });
    return new Promise<number | null>((resolve) => child.once('close', resolve));
  });
  const statuses = await Promise.all(ended);
  rmSync(directory, { recursive: true, force: true });
  if (statuses.some((status) => status !== 0)) throw new Error(`a rank ended with ${statuses.join(', ')}`);
}

const load = loadavg()[0]!.toFixed(1);
console.log(
  `${availableParallelism()} cores, load ${load} before the start (times count where it is near 0)`,
);
printStoreRoundTrips();
for (const size of [2, 8]) await runRanks(size);
if (glooProblem() === undefined)
  for (const hosts of [
    [0, 1],
    [0, 1, 2],
    [0, 0, 1, 1],
  ])
    await runRanks(hosts.length, hosts);
else console.log(`gloo: left out, ${glooProblem()}`);
