import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { workspaceFlags } from '@mtl/tooling/typescript-threads';
import { describe, expect, it } from 'vitest';

interface Outcome {
  readonly name: string;
  readonly value: number;
  /** Result of the case; absent in the message that announces its start. */
  readonly outcome?: string;
  readonly seconds?: number;
  readonly peakBytes?: number;
}

const program = fileURLToPath(new URL('support/dry-runs-of-counts.mjs', import.meta.url));
/** The limit suits a busy machine; a case takes a tenth of a second or less. */
const mostSeconds = 20;
const mostBytes = 700e6;

/** Returns the result of every dry run, for some or all flags, up to the first run that does not end. */
async function outcomesOfCounts(flags: readonly string[] = []): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  const child = fork(program, flags, {
    execArgv: [...workspaceFlags, '--max-old-space-size=600'],
    silent: true,
  });
  await new Promise<void>((resolve) => {
    let current: Outcome | undefined;
    let clock: NodeJS.Timeout | undefined;
    let output = '';
    child.stderr!.on('data', (data: Buffer) => {
      output = `${output}${data}`.slice(-2000);
    });
    child.on('message', (message: Outcome) => {
      clearTimeout(clock);
      current = message.outcome === undefined ? message : undefined;
      if (message.outcome !== undefined) outcomes.push(message);
      clock = setTimeout(() => child.kill('SIGKILL'), mostSeconds * 1000);
    });
    child.on('exit', (code, signal) => {
      clearTimeout(clock);
      if (current !== undefined)
        outcomes.push({ ...current, outcome: `no end: ${signal ?? code} ${output}` });
      else if (code !== 0) throw new Error(`the process did not start: ${output}`);
      resolve();
    });
  });
  return outcomes;
}

/** Expects that the error names the flag, or another flag that would have to be as large. */
function isWrong({ name, value, outcome = '', peakBytes = 0 }: Outcome): boolean {
  const names = [`--${name} `, ` ${value}`].some((word) => outcome.includes(word));
  const isRight = outcome === 'works' || (/^error\[MTL_\w+\]/.test(outcome) && names);
  return !isRight || peakBytes > mostBytes;
}

/** Flags whose values fill lists, and flags at which searches for a nearest value begin. */
const ofLists = [
  ...['num-layers', 'num-experts', 'hidden-size', 'kv-channels', 'micro-batch-size', 'global-batch-size'],
  ...['rampup-batch-size', 'pipeline-model-parallel-size', 'expert-tensor-parallel-size', 'num-processes'],
  ...['moe-shared-expert-intermediate-size', 'threads'],
];

describe('a dry run works or names the flag, whatever count a flag has', () => {
  it('of those that fill lists', { timeout: 300_000 }, async () => {
    const outcomes = await outcomesOfCounts(ofLists);
    expect(outcomes.filter(isWrong)).toEqual([]);
    expect(outcomes).toHaveLength(4 * ofLists.length);
  });

  it('of all flags', { timeout: 600_000, tags: ['whole'] }, async () => {
    const outcomes = await outcomesOfCounts();
    expect(outcomes.filter(isWrong)).toEqual([]);
    expect(outcomes.length).toBeGreaterThan(200);
  });
});
