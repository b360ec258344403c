#!/usr/bin/env node
/**
 * Trains a GPT: a decoder that learns to predict the next token. With `mtl run --nproc-per-node 4 gpt-train`
 * four processes run this program: each holds its part of the model, reads its part of the data, and takes
 * every step together with the others. `mtl train gpt` takes the same steps; here they can be read and
 * changed.
 */
import { LossScaler } from '@mtl/optimizer';
import { planning } from '@mtl/planning';
import {
  batchesOfRun,
  beginReports,
  dataOfRun,
  loadStart,
  modelOfRun,
  type OpenedRun,
  optimizerOfRun,
  partOfRun,
  pretraining,
  runTrainingProgram,
  showResults,
  trainerOfRun,
  trainingProfiler,
} from '@mtl/runs';

/** Opens the run and trains its model: on every rank, once the processes have joined. */
async function trainGpt(run: OpenedRun): Promise<void> {
  // World and mesh: the processes of the job are `run.world`, undefined for one alone. `run.processes` says
  // which place this one has in the mesh of tp x dp x pp, and has its groups: with tp it shares layers, with
  // dp the samples of a step, with pp the order of the layers.
  const { configuration } = run;

  // Data: documents as token ids, cut into samples of --seq-length + 1 tokens in a shuffled order, or
  // conversations packed into samples; and the tokenizer that made them.
  const data = await dataOfRun(run);

  // Architecture: GPT-2 or the Llama family in the sizes of the flags, or what --load or --load-hf names.
  const model = await modelOfRun(run, { data });

  // Stages: the layers of this rank (embedding and head on the first and the last stage), and the pipeline
  // that runs their forward and backward passes in the order of the schedule.
  const profiler = trainingProfiler(run);
  const part = partOfRun(run, { model, recorder: profiler });

  // Optimizer: AdamW or Muon over the stores of the parameters. They have the memory of values and gradients,
  // whole or sharded over dp, and reduce the gradients. Losses are scaled where gradients are in float16.
  const optimizer = optimizerOfRun(run, { part });
  const lossScaler = new LossScaler(configuration.optimizer.lossScale);

  // Start: initial weights, or those of --load or --load-hf; a run that goes on has its optimizer and its
  // place, too.
  const start = await loadStart(run, { model, optimizer, lossScaler, data });

  // Reports: what is told of the run by rank 0: console, run.json, metrics.jsonl, TensorBoard, services.
  const reports = await beginReports(run, { start, model, data });

  // Loop: a step is forward and backward of its micro-batches, the mean loss of all their tokens, and the
  // update.
  const batches = batchesOfRun(run, { data, part, start });
  const parts = { data, model, part, optimizer, lossScaler, start, reports, batches };
  const trainer = trainerOfRun(run, { ...parts, profiler });

  // Around the loop: evaluations, checkpoints, signals and exports. A program that wants to see each step
  // writes `for await (const { iteration, loss } of training)` in place of `run`.
  const training = pretraining(run, { ...parts, trainer });
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
