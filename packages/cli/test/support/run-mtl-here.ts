import { asProgram } from '@mtl/tooling/run-program-here';
import { runMtl } from '../../src/index.js';

/** The output of a command line. */
export interface FinishedMtlHere {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
  /** Number of calls that wrote to standard output. */
  readonly numWrites: number;
}

/** Runs a command line of `mtl` in this process and returns its output instead of printing it. */
export async function runMtlHere(...argv: readonly string[]): Promise<FinishedMtlHere> {
  const written = { stdout: '', stderr: '' };
  let numWrites = 0;
  const status = await asProgram(
    () => runMtl(argv),
    (stream, text) => {
      written[stream] += text;
      if (stream === 'stdout') numWrites += 1;
    },
  );
  return { status, ...written, numWrites };
}
