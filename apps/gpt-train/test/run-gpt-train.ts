import { fileURLToPath } from 'node:url';
import { readMetrics } from '@mtl/tooling/read-metrics';
import { type ProgramRun, type RunProgramOptions, runProgram } from '@mtl/tooling/run-program';
import { runProgramHere } from '@mtl/tooling/run-program-here';

export { readMetrics };
export type Run = ProgramRun;

/** Path of the built program. */
export const gptTrain = fileURLToPath(new URL('../dist/main.js', import.meta.url));

/** Starts the built program as a user would and waits for its end. */
export function runGptTrain(options: Omit<RunProgramOptions, 'program'>): Promise<Run> {
  return runProgram({ program: gptTrain, ...options });
}

/**
 * Runs the built program in this process, which takes half a second less. Tests of signals, of failing
 * streams, and of a process that must end without help need a separate process (`runGptTrain`).
 */
export function runGptTrainHere(options: Omit<RunProgramOptions, 'program'>): Promise<Run> {
  return runProgramHere({ program: gptTrain, ...options });
}
