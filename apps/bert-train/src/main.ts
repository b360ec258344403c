#!/usr/bin/env node
/**
 * Pretrains a BERT: an encoder that learns masked tokens and the order of sentences. With `mtl run
 * --nproc-per-node 4 bert-train` four processes run this program: each holds its part of the model, reads its
 * part of the data, and takes every step together with the others. `mtl train bert` takes the same steps;
 * here they can be read and changed.
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
async function trainBert(run: OpenedRun): Promise<void> {
  // World and mesh: the processes of the job are `run.world`, undefined for one alone. `run.processes` has
  // the coordinates of this process in the mesh of tp x dp x pp, and its process groups: tp ranks share every
  // layer, dp ranks share the samples of a step, pp ranks have consecutive layers.

  // Data: documents as sentences of token ids. A sample has two runs of sentences, swapped half of the time,
  // and 15 % of its tokens masked, in the order and with the masks of Megatron-LM; and the WordPiece
  // tokenizer that made the token ids.
  const data = await openData(run);

  // Architecture: a BERT in the sizes of the flags, or in the sizes of the model in --load or --load-hf.
  const model = await describeModel(run, { data });

  // Stages: the layers of this rank (embedding and heads on the first and the last stage), and the pipeline
  // that runs their forward and backward passes in the order of the schedule. Padding is left out of all
  // passes.
  const profiler = trainingProfiler(run);
  const part = buildStages(run, { model, recorder: profiler });

  // Optimizer: AdamW or Muon over the stores of the parameters. Stores own the memory of values and
  // gradients, replicated or sharded over dp, and reduce the gradients.
  const optimizer = createOptimizer(run, { part });

  // Loop: the weights that the run begins with (initial ones, or --load, --load-hf; a resumed run also takes
  // its optimizer and its position), reports of rank 0 (console, run.json, metrics.jsonl, TensorBoard,
  // services), batches, evaluations, checkpoints and exports. A step is forward and backward of its
  // micro-batches, and the update. The loss is a sum of two means: over masked tokens, and over samples for
  // the order of their sentences.
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
