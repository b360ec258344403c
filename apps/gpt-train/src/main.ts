#!/usr/bin/env node
/**
 * Trains a GPT: a decoder that learns to predict the next token. With `mtl run --nproc-per-node 4 gpt-train`
 * four processes run this program: each holds its part of the model, reads its part of the data, and takes
 * every step together with the others. `mtl train gpt` takes the same steps; here they can be read and
 * changed.
 */
import { planning } from '@mtl/planning';
import {
  buildStages,
  createOptimizer,
  describeModel,
  type OpenedRun,
  openData,
  openLoop,
  runTrainingProgram,
  showResults,
  trainingProfiler,
} from '@mtl/runs';

/** Opens the run and trains its model: on every rank, once the processes have joined. */
async function trainGpt(run: OpenedRun): Promise<void> {
  // World and mesh: the processes of the job are `run.world`, undefined for one alone. `run.processes` has
  // the coordinates of this process in the mesh of tp x dp x pp, and its process groups: tp ranks share every
  // layer, dp ranks share the samples of a step, pp ranks have consecutive layers.

  // Data: documents as token ids, split into samples of --seq-length + 1 tokens in a shuffled order, or
  // conversations packed into samples; and the tokenizer that made the token ids.
  const data = await openData(run);

  // Architecture: GPT-2 or the Llama family in the sizes of the flags, or in the sizes of the model in --load
  // or --load-hf.
  const model = await describeModel(run, { data });

  // Stages: the layers of this rank (embedding and head on the first and the last stage), and the pipeline
  // that runs their forward and backward passes in the order of the schedule.
  const profiler = trainingProfiler(run);
  const part = buildStages(run, { model, recorder: profiler });

  // Optimizer: AdamW or Muon over the stores of the parameters. Stores own the memory of values and
  // gradients, replicated or sharded over dp, and reduce the gradients.
  const optimizer = createOptimizer(run, { part });

  // Loop: the weights that the run begins with (initial ones, or --load, --load-hf; a resumed run also takes
  // its optimizer and its position), reports of rank 0 (console, run.json, metrics.jsonl, TensorBoard,
  // services), batches, evaluations, checkpoints and exports. A step is forward and backward of its
  // micro-batches, the mean loss of all their tokens, and the update. A program that wants to see each step
  // writes `for await (const { iteration, loss } of training)` in place of `run`.
  const training = await openLoop(run, { data, model, part, optimizer, profiler });
  try {
    await training.run();
    await showResults(run, training);
  } finally {
    await training.close();
  }
}

await runTrainingProgram(
  {
    model: 'gpt',
    program: 'gpt-train',
    description: 'Trains a GPT.',
    argv: process.argv.slice(2),
    planning,
  },
  trainGpt,
);
