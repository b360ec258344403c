#!/usr/bin/env node
/**
 * Pretrains a BERT: an encoder that learns to predict masked tokens and whether two segments are in their
 * original order. Started with `mtl run --nproc-per-node 4 bert-train`, this program runs in four processes.
 * Each process holds its part of the model, reads its part of the data, and takes every step together with
 * the other processes. `mtl train bert` runs the same code; this program is for readers who want to see or
 * change it.
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
async function trainBert(run: OpenedRun): Promise<void> {
  // World and mesh: `run.world` contains the job's processes; it is undefined for a single process.
  // `run.processes` contains this process's coordinates in the tp x dp x pp mesh, and its process groups. The
  // ranks of a tp group each have a shard of every layer, the ranks of a dp group divide the samples of a
  // step, and the ranks of a pp group have consecutive layers.

  // Data: documents as sentences of token ids, and the WordPiece tokenizer that made the ids. A sample
  // consists of two segments of consecutive sentences, swapped in half of the samples, and 15 % of its tokens
  // are masked. Samples and masks are the same as in Megatron-LM.
  const data = await openData(run);

  // Architecture: a BERT with the sizes given by the flags or by the model in --load or --load-hf.
  const model = await describeModel(run, { data });

  // Stages: this rank's layers, with the embedding on the first stage and the heads on the last. The pipeline
  // runs their forward and backward passes in the schedule's order. Padding tokens are never computed.
  const profiler = trainingProfiler(run);
  const part = buildStages(run, { model, recorder: profiler });

  // Optimizer: AdamW or Muon. It updates the parameters in the stores. A store owns the memory for its
  // parameters and gradients, replicated or sharded over dp, and reduces the gradients.
  const optimizer = createOptimizer(run, { part });

  // Loop: steps, evaluations, checkpoints and exports. Training starts from initial weights or from the
  // weights in --load or --load-hf; a resumed run also restores its optimizer and its position in the data.
  // Rank 0 reports to the console, run.json, metrics.jsonl, TensorBoard and services. A step runs the forward
  // and backward passes of its micro-batches, then the update. The loss is the mean masked-token loss over
  // masked tokens, plus the mean sentence-order loss over samples.
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
