#!/usr/bin/env node
/**
 * Pretrains a BERT: an encoder that learns to predict masked tokens and the order of sentences. With
 * `mtl run --nproc-per-node 4 bert-train`, four processes run this program. Each process holds its part of
 * the model, reads its part of the data, and takes every step together with the others. `mtl train bert` runs
 * the same code; this program is for readers who want to see or change it.
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

/** Opens the run and trains its model. Every rank calls this after the processes have found each other. */
async function trainBert(run: OpenedRun): Promise<void> {
  // World and mesh: `run.world` has the processes of the job. It is undefined for a single process.
  // `run.processes` has the coordinates of this process in the mesh of tp x dp x pp, and its process groups.
  // Ranks of a tp group share every layer, ranks of a dp group divide the samples of a step, and ranks of a
  // pp group have consecutive layers.

  // Data: documents as sentences of token ids, and the WordPiece tokenizer that made the ids. A sample has
  // two runs of consecutive sentences, swapped half of the time, and 15 % of its tokens are masked. Samples
  // and masks are the same as in Megatron-LM.
  const data = await openData(run);

  // Architecture: a BERT with the sizes of the flags, or of the model in --load or --load-hf.
  const model = await describeModel(run, { data });

  // Stages: the layers of this rank, with the embedding on the first stage and the heads on the last. The
  // pipeline runs their forward and backward passes in the order of the schedule. No pass computes padding
  // tokens.
  const profiler = trainingProfiler(run);
  const part = buildStages(run, { model, recorder: profiler });

  // Optimizer: AdamW or Muon. It works on stores, which own the memory of parameters and gradients,
  // replicated or sharded over dp, and reduce the gradients.
  const optimizer = createOptimizer(run, { part });

  // Loop: steps, evaluations, checkpoints and exports. The first weights are initial weights, or come from
  // --load or --load-hf; a resumed run also restores its optimizer and its position in the data. Rank 0
  // reports to the console, run.json, metrics.jsonl, TensorBoard and services. A step is the forward and
  // backward passes of its micro-batches, and the update. The loss is the mean over masked tokens, plus the
  // mean over samples of the loss for the order of sentences.
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
    model: 'bert',
    program: 'bert-train',
    description: 'Pretrains a BERT.',
    argv: process.argv.slice(2),
    planning,
  },
  trainBert,
);
