import { existsSync } from 'node:fs';
import * as module from 'node:module';

/**
 * Runs the training program for the given kind of model, like apps/gpt-train and apps/bert-train in a
 * checkout.
 */
export async function runTraining(options) {
  module.enableCompileCache?.(); // from Node.js 22.1 on
  if (existsSync(new URL('../dist/main.js', import.meta.url))) {
    const { planning } = await import('@mtl/planning');
    const { runTrainingProgram } = await import('@mtl/runs');
    await runTrainingProgram({ ...options, planning, argv: process.argv.slice(2) });
  } else {
    console.error(
      `error[MTL_BOOTSTRAP]: the command ${options.program} is not built yet\n  remedy: npm run bootstrap`,
    );
    process.exitCode = 2;
  }
}
