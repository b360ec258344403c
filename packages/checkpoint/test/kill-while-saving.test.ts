import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { numberInRuns } from '@mtl/tooling/in-whole-runs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ownerName, parseSaveOwner } from '../src/checkpoints/save-owner.js';
import { findCheckpoint, loadCheckpoint, saveCheckpoint } from '../src/index.js';
import { bundle } from './support/bundle.js';
import { Random } from './support/random.js';
import { largeStateOfIteration } from './support/states.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const kills = numberInRuns({ whole: 20, fast: 5 });
/** Fewer kills may all hit a moment between two saves; the test then continues up to this number of kills. */
const mostKills = 20;
const temporary = temporaryDirectory();
const local = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
let program: string;

beforeAll(async () => {
  // The bundle reads the version of the package next to it, as the sources do.
  program = await mkdtemp(join(tmpdir(), 'mtl-checkpoint-save-loop-'));
  await cp(local('../package.json'), join(program, 'package.json'));
  await bundle({ entry: local('./support/save-loop.ts'), outDir: join(program, 'dist') });
});

afterAll(async () => {
  await rm(program, { recursive: true, force: true });
});

/**
 * Runs the saving loop and kills it `delayMs` after it began to save. Returns the last iteration that it
 * reported as saved.
 */
async function saveAndKill(delayMs: number): Promise<number> {
  const child = spawn(process.execPath, [join(program, 'dist', 'save-loop.js'), temporary.path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  let saved = 0;
  try {
    const lines = createInterface({ input: child.stdout });
    const closed = once(lines, 'close');
    const firstLine = once(lines, 'line');
    lines.on('line', (line) => {
      saved = Number(line.split(' ')[1]);
    });
    await Promise.race([firstLine, ended]);
    await new Promise((resolve) => setTimeout(resolve, delayMs));
    child.kill('SIGKILL');
    const [, signal] = await ended;
    expect(signal).toBe('SIGKILL');
    await closed;
  } finally {
    child.kill('SIGKILL');
  }
  return saved;
}

/** Ages all saves without an owner: a save is left alone for an hour, in case its process lives. */
async function letAnHourPass(): Promise<void> {
  const hoursAgo = new Date(Date.now() - 2 * 60 * 60 * 1000);
  for (const left of await readdir(temporary.path)) {
    const path = join(temporary.path, left);
    // the tracker is a file, which a save owns only briefly
    if (!left.endsWith('.saving') || !(await stat(path)).isDirectory()) continue;
    const names = await readdir(path);
    if (names.includes(ownerName) && parseSaveOwner(await readFile(join(path, ownerName), 'utf8'))) continue;
    for (const name of [...names, '.']) await utimes(join(path, name), hoursAgo, hoursAgo);
  }
}

it(`a process killed while saving, ${kills} times or more, always leaves a whole checkpoint`, async () => {
  const random = new Random(20261121);
  let unfinished = 0;
  let newest = 0;
  for (let kill = 0; kill < kills || (unfinished === 0 && kill < mostKills); kill++) {
    const saved = await saveAndKill(random.below(60));
    const names = await readdir(temporary.path);
    if (names.some((name) => /\.(saving|deleting|replaced)$/.test(name))) unfinished++;
    const found = await findCheckpoint({ directory: temporary.path, onNotice: () => undefined });
    if (found.kind !== 'found') expect.fail(`kill ${kill}: no checkpoint`);
    const { checkpoint, skipped } = found;
    // No reported save is lost, and no published directory is incomplete.
    expect(saved).toBeGreaterThan(newest);
    expect(checkpoint.iteration, `kill ${kill}`).toBeGreaterThanOrEqual(saved);
    expect(skipped).toEqual([]);
    const target = largeStateOfIteration(0, { zero: true });
    await loadCheckpoint({ checkpoint, tensors: target });
    for (const [index, tensor] of largeStateOfIteration(checkpoint.iteration).entries()) {
      expect(Buffer.compare(target[index]!.memory!, tensor.memory!), `kill ${kill}, ${tensor.name}`).toBe(0);
    }
    newest = checkpoint.iteration;
  }
  // Otherwise no kill hit a save.
  expect(unfinished).toBeGreaterThan(0);
  const iteration = newest + 1;
  const tensors = largeStateOfIteration(iteration);
  // the two moments before a save has named its owner: kills rarely hit them
  const [unnamed, naming] = [1, 2].map((n) => join(temporary.path, `iter_000000${n}.saving`));
  for (const path of [unnamed!, naming!]) await mkdir(path, { recursive: true });
  await writeFile(join(naming!, ownerName), '');
  await letAnHourPass();
  await saveCheckpoint({ directory: temporary.path, iteration, tensors, state: {}, keepLast: 1 });
  const name = `iter_${String(iteration).padStart(7, '0')}`;
  expect(await readdir(temporary.path)).toEqual([name, 'latest_checkpointed_iteration.txt']);
  console.log(`${unfinished} kills left something unfinished; reached iteration ${newest}`);
});
