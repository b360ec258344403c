import { fork } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inWholeRuns, numberInRuns } from '../vitest/in-whole-runs.mjs';
import { largeCounts, withLargeCounts } from './counts.mjs';
import { formats } from './formats.mjs';

const here = fileURLToPath(new URL('.//', import.meta.url));
/**
 * The maximum number of seconds that a case may take, on a busy machine. A case usually takes some
 * milliseconds.
 */
const mostSeconds = 20;
const mostBytes = 900e6;

let folder;
let reader;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'mtl-counts-'));
});
afterAll(() => {
  reader?.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

/** Reads a file in a separate process, which is ended if it takes too long. Returns the result. */
async function readOutcome(message) {
  if (reader?.connected !== true) {
    reader = fork(join(here, 'reader-process.mjs'), [join(here, 'formats.mjs'), folder], {
      execArgv: ['--max-old-space-size=600'],
      silent: true,
    });
    await new Promise((resolve) => reader.once('message', resolve));
  }
  const started = performance.now();
  const outcome = await new Promise((resolve) => {
    let clock;
    const settle = (kind) => {
      clearTimeout(clock);
      reader.off('message', receive).off('exit', exit);
      resolve(kind);
    };
    const receive = (reply) => {
      // the clock starts only now, because reading the valid files before the first case also takes time
      if (reply.kind === 'started') clock = setTimeout(() => reader.kill('SIGKILL'), mostSeconds * 1000);
      if (reply.done) settle(`${reply.kind} ${reply.what ?? ''}`);
    };
    const exit = () => settle('no end');
    reader.on('message', receive).on('exit', exit);
    reader.send(message);
  });
  return { outcome, seconds: (performance.now() - started) / 1000, bytes: peakBytes(reader.pid) };
}

/** Returns the peak memory of a process in bytes, or 0 unless Linux reports it. */
function peakBytes(pid) {
  const path = `/proc/${pid}/status`;
  const line = existsSync(path) ? /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(path, 'latin1')) : null;
  return line === null ? 0 : 1024 * Number(line[1]);
}

/**
 * The formats, and the interval between the cases that `npm test` runs: 1 for every case, 3 for every third
 * case, and so on.
 */
const counted = {
  indexed: 1,
  'tokenizer-json': 3,
  'vocab-json': 3,
  safetensors: 7,
  'hugging-face': 3,
  lora: 31,
  gguf: 7,
  manifest: 1,
  trace: 13,
  'chat-template': 61,
};

// only reading the valid files of Megatron-LM already takes half a minute
const formatsAndSteps = [...Object.entries(counted), ...inWholeRuns(['megatron', 1])];

describe('counts that are much too large', () => {
  it.each(formatsAndSteps)(
    'are refused, or change nothing, in every file of the format %s',
    { timeout: 1_800_000 },
    async (format, fast) => {
      const directory = join(folder, `example-${format}`);
      await formats[format].make(directory);
      const wrong = [];
      let cases = 0;
      const step = format === 'megatron' ? 7 : numberInRuns({ whole: 1, fast });
      for (const file of new Set(formats[format].files(directory))) {
        const all = withLargeCounts(readFileSync(join(directory, file)), file);
        for (const { where, bytes } of all) {
          if (cases++ % step !== 0) continue;
          const path = join(folder, 'large');
          writeFileSync(path, bytes);
          const found = await readOutcome({ format, seed: '1', index: 0, input: { file, path } });
          const isRight = /^(read|refused) /.test(found.outcome) && found.bytes < mostBytes;
          if (!isRight) wrong.push({ file, where, ...found });
        }
      }
      expect(wrong).toEqual([]);
      expect(cases).toBeGreaterThanOrEqual(largeCounts.length);
    },
  );
});
