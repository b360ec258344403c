import { fileURLToPath } from 'node:url';
import { readMetrics } from '@mtl/tooling/read-metrics';
import { type ProgramRun, type RunProgramOptions, runProgram } from '@mtl/tooling/run-program';

export { readMetrics };
export type Run = ProgramRun;

/** The built program. */
export const gptTrain = fileURLToPath(new URL('../dist/main.js', import.meta.url));

/** Starts the built program as a user would and waits for its end. */
export function runGptTrain(options: Omit<RunProgramOptions, 'program'>): Promise<Run> {
  return runProgram({ program: gptTrain, ...options });
}
