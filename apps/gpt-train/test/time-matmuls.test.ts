import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { prepareCorpus } from '@mtl/runs/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readMetrics } from './run-gpt-train.js';
import { runRanks } from './run-ranks.js';

const numSteps = 4;
const timed = ['--time-matmuls'];

interface RunOptions {
  readonly flags?: readonly string[];
  readonly numProcesses?: number;
  /** Folder in which the choices are kept. Default: `cache`. */
  readonly cache?: string;
}

describe('gpt-train --time-matmuls on device cpu', () => {
  let directory: string;
  let recipe: string[];

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'mtl-time-matmuls-'));
    recipe = [
      ...(await prepareCorpus(directory)),
      ...['--preset', 'none', '--num-layers', '2', '--hidden-size', '32'],
      ...['--num-attention-heads', '2', '--seq-length', '16', '--max-position-embeddings', '16'],
      ...['--micro-batch-size', '1', '--global-batch-size', '2', '--train-iters', String(numSteps)],
      ...['--lr', '1e-3', '--lr-decay-style', 'constant', '--eval-iters', '0', '--log-interval', '1'],
      ...['--threads', '1', '--split', '100,0,0'],
    ];
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  const locate = (run: string): string => join(directory, run);

  async function train(run: string, { flags = [], numProcesses = 1, cache = 'cache' }: RunOptions = {}) {
    const metrics = join(directory, `${run}.jsonl`);
    rmSync(metrics, { force: true });
    const { code, output } = await runRanks({
      numProcesses,
      flags: [...recipe, ...flags, '--save', locate(run), '--metrics-jsonl', metrics],
      directory,
      variables: { XDG_CACHE_HOME: join(directory, cache) },
    });
    expect(code, output).toBe(0);
    const numbers = readMetrics(metrics).map(({ lm_loss, grad_norm }) => [lm_loss, grad_norm]);
    return { output, numbers };
  }

  /** Returns the choices in the record of a run's last start. */
  const recorded = (run: string) => {
    const { starts } = JSON.parse(readFileSync(join(locate(run), 'run.json'), 'utf8')) as {
      starts: { matmuls?: { platform: string; choices: Record<string, string> } }[];
    };
    return starts.at(-1)!.matmuls;
  };

  /** Returns the path of the single file of choices in a cache directory. */
  function findFile(cache: string): string {
    const folder = join(directory, cache, 'mtl/matmuls');
    const names = readdirSync(folder);
    expect(names).toHaveLength(1);
    return join(folder, names[0]!);
  }

  it('chooses once, records it, and a later run has the same choices and the same bits', async () => {
    const first = await train('first', { flags: timed });
    expect(first.output).toMatch(/algorithms of matmuls: \d+ chosen by time, kept in/);
    const { choices, platform } = recorded('first')!;
    expect(platform).toContain('threads 1');
    // forward, the gradient of the input, the gradient of the weights
    const transposed = Object.keys(choices).map((problem) => problem.split(',').slice(6).join());
    expect(new Set(transposed)).toEqual(new Set(['nt', 'nn', 'tn,added']));
    const second = await train('second', { flags: timed });
    expect(second.output).toContain('algorithms of matmuls: as chosen before');
    expect(recorded('second')).toEqual({ choices, platform });
    expect(second.numbers).toEqual(first.numbers);
  });

  it('keeps its choices when it resumes, without the flag and without the file', async () => {
    const whole = await train('whole', { flags: timed, cache: 'resumed' });
    await train('half', { flags: [...timed, '--exit-interval', '2'], cache: 'resumed' });
    const rest = await train('half', { flags: ['--load', locate('half')], cache: 'nothing' });
    expect(recorded('half')).toEqual(recorded('whole'));
    expect(rest.numbers).toEqual(whole.numbers.slice(2));
    const file = findFile('resumed');
    const written = readFileSync(file, 'utf8');
    rmSync(file);
    // with the flag, only what the checkpoint lacks would be timed
    const again = await train('again', {
      flags: [...timed, '--load', locate('half'), '--train-iters', `${numSteps + 1}`],
      cache: 'resumed',
    });
    expect(again.output).toContain('algorithms of matmuls: as chosen before');
    const sorted = (text: string): string[] => text.split('\n').sort();
    expect(sorted(readFileSync(findFile('resumed'), 'utf8'))).toEqual(sorted(written));
  });

  it.each([
    ['tp 2', ['--tensor-model-parallel-size', '2', '--sequence-parallel']],
    ['pp 2', ['--pipeline-model-parallel-size', '2']],
    ['dp 2', ['--use-distributed-optimizer']],
  ])('chooses on the first rank for all: %s', async (name, layout) => {
    const options = { flags: [...timed, ...layout], numProcesses: 2, cache: name };
    const first = await train(`${name} first`, options);
    expect(first.output.match(/algorithms of matmuls: \d+ chosen by time/g)).toHaveLength(1);
    const written = statSync(findFile(name)).mtimeMs;
    const second = await train(`${name} second`, options);
    expect(second.output.match(/algorithms of matmuls/g)).toHaveLength(1);
    expect(second.numbers).toEqual(first.numbers);
    expect(statSync(findFile(name)).mtimeMs).toBe(written);
  });
});
