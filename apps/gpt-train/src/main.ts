#!/usr/bin/env node
/**
 * Trains a GPT: a decoder that learns to predict the next token. Started with `mtl run --nproc-per-node 4
 * gpt-train`, this program runs in four processes. Each process holds its part of the model, reads its part
 * of the data, and takes every step together with the other processes. `mtl train gpt` runs the same code;
 * this program is for readers who want to see or change it.
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

/**
 * Trains the model of an opened run. Every rank calls this once the processes are connected to each other.
 */
async function trainGpt(run: OpenedRun): Promise<void> {
  // World and mesh: `run.world` contains the job's processes; it is undefined for a single process.
  // `run.processes` contains this process's coordinates in the tp x dp x pp mesh, and its process groups. The
  // ranks of a tp group each have a shard of every layer, the ranks of a dp group divide the samples of a
  // step, and the ranks of a pp group have consecutive layers.

  // Data: documents as token ids, and the tokenizer that made the ids. Documents are split into samples of
  // --seq-length + 1 tokens in a shuffled order; conversations are packed into samples.
  const data = await openData(run);

  // Architecture: GPT-2 or the Llama family, with the sizes given by the flags or by the model in --load or
  // --load-hf.
  const model = await describeModel(run, { data });

  // Stages: this rank's layers, with the embedding on the first stage and the head on the last. The pipeline
  // runs their forward and backward passes in the schedule's order.
  const profiler = trainingProfiler(run);
  const part = buildStages(run, { model, recorder: profiler });

  // Optimizer: AdamW or Muon. It updates the parameters in the stores. A store owns the memory for its
  // parameters and gradients, replicated or sharded over dp, and reduces the gradients.
  const optimizer = createOptimizer(run, { part });

  // Loop: steps, evaluations, checkpoints and exports. Training starts from initial weights or from the
  // weights in --load or --load-hf; a resumed run also restores its optimizer and its position in the data.
  // Rank 0 reports to the console, run.json, metrics.jsonl, TensorBoard and services. A step runs the forward
  // and backward passes of its micro-batches, computes the mean loss over all their tokens, and applies the
  // update. A program that needs each step writes `for await (const { iteration, loss } of training)` in
  // place of `run`.
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
