import { readFileSync, writeFileSync } from 'node:fs';
import { Checkpoint, loadCheckpoint, saveCheckpoint } from '@mtl/checkpoint';
import type { World } from '@mtl/comm';
import { readHuggingFaceGpt, writeHuggingFaceGpt } from '@mtl/formats';
import { memoryStatistics, resetPeakMemory } from '@mtl/kernels';
import { type GptModelConfiguration, GptStage } from '@mtl/models';
import { AdamwOptimizer, createStores } from '@mtl/optimizer';
import { optimizerTensors, weightTensors } from '@mtl/trainer';
import { Ranks } from '@mtl/trainer/internal';
import { TrainingProcesses } from '../../src/parts/ranks/training-processes.js';
import { savedWeights } from '../../src/saved/checkpoints/saved-weights.js';

export interface MoveCheckpointsArgument {
  readonly tensorParallelSize: number;
  readonly distributed: boolean;
  readonly move: Move;
  readonly directory: string;
}

export type Move = 'save' | 'load' | 'export' | 'export from checkpoint' | 'import';

/** Sizes in bytes. */
export interface MeasuredMove {
  /** Peak resident memory of the process, above its memory before, from any allocator. */
  readonly resident: number;
  /** The part of `resident` from the allocator of tensors. */
  readonly allocator: number;
  /** The largest box that this rank holds of a tensor, and the largest tensor of the model. */
  readonly largestBox: number;
  readonly largestTensor: number;
  /** Bytes of everything that this rank holds, and of the weights of the whole model. */
  readonly everything: number;
  readonly allWeights: number;
}

const movedModel: GptModelConfiguration = {
  numLayers: 8,
  hiddenSize: 512,
  ffnHiddenSize: 2048,
  numAttentionHeads: 8,
  maxPositionEmbeddings: 128,
  vocabularySize: 8192,
  makeVocabularySizeDivisibleBy: 128,
  tieEmbeddings: true,
  layerNormEpsilon: 1e-5,
  geluKind: 'tanh',
  initMethodStd: 0.02,
  hiddenDropout: 0,
  attentionDropout: 0,
};

/** Moves checkpoints in and out of a GPT and its optimizer on one rank of a training run. */
export default async function moveCheckpoints(
  world: World,
  { tensorParallelSize, distributed, move, directory }: MoveCheckpointsArgument,
): Promise<MeasuredMove> {
  const dataParallelSize = world.size / tensorParallelSize;
  const processes = new TrainingProcesses({
    world,
    parallel: { tensorModelParallelSize: tensorParallelSize, pipelineModelParallelSize: 1, dataParallelSize },
  });
  const { groups } = processes;
  const stage = new GptStage({
    model: movedModel,
    device: 'cpu',
    dtype: 'float32',
    seed: 1,
    tensorParallel: groups.tp && { group: groups.tp, sequenceParallel: true },
  });
  const stores = createStores(stage.parameters, {
    kind: distributed ? 'zero1' : 'replicated',
    device: 'cpu',
    dtype: 'float32',
    groups,
    seed: 1,
  });
  const optimizer = new AdamwOptimizer(stores, {
    beta1: 0.9,
    beta2: 0.95,
    epsilon: 1e-8,
    weightDecay: 0.1,
    clipGrad: 1,
    groups,
  });
  const tensors = () => [...weightTensors(optimizer), ...optimizerTensors(optimizer)];
  const ranks = new Ranks({ groups });
  const rank = world.rank;
  const act: Readonly<Record<Move, (directory: string) => Promise<unknown>>> = {
    save: (directory) =>
      saveCheckpoint({
        directory,
        iteration: 1,
        tensors: tensors(),
        state: {},
        rank,
        worldSize: world.size,
        barrier: async (succeeded) => ranks.maximum([succeeded ? 0 : 1])[0] === 0,
      }),
    load: async (directory) => {
      const checkpoint = await Checkpoint.open(`${directory}/iter_0000001`);
      await loadCheckpoint({ checkpoint, tensors: tensors() });
      optimizer.refreshModel();
    },
    export: (directory) =>
      writeHuggingFaceGpt({
        directory,
        model: movedModel,
        tensors: weightTensors(optimizer),
        group: groups.tp,
      }),
    'export from checkpoint': async (directory) => {
      if (rank !== 0) return;
      const saved = savedWeights(await Checkpoint.open(`${directory}/iter_0000001`));
      await writeHuggingFaceGpt({ directory: `${directory}-exported`, model: movedModel, tensors: saved });
    },
    import: async (directory) => {
      const huggingFace = await readHuggingFaceGpt({ directory });
      const held = weightTensors(optimizer).filter(({ slices }) =>
        slices.every(({ start, end }) => start < end),
      );
      await huggingFace.load(held);
      optimizer.refreshModel();
    },
  };
  const bytes = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 4);
  const boxes = tensors().map(({ slices }) => bytes(slices.map(({ start, end }) => end - start)));
  const sizes = {
    largestBox: Math.max(...boxes),
    largestTensor: Math.max(...tensors().map(({ globalShape }) => bytes(globalShape))),
    everything: boxes.reduce((sum, each) => sum + each, 0),
    allWeights: stage.parameters.reduce((sum, { globalShape }) => sum + bytes(globalShape), 0),
  };
  const measured = await measure(() => act[move](directory));
  world.group.barrier().wait();
  optimizer.dispose();
  return { ...measured, ...sizes };
}

const statusBytes = (field: string): number =>
  1024 * Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(readFileSync('/proc/self/status', 'utf8'))![1]);

async function measure(body: () => Promise<unknown>): Promise<{ resident: number; allocator: number }> {
  globalThis.gc!();
  // Linux: resets the high-water mark of resident memory to the current value
  writeFileSync('/proc/self/clear_refs', '5');
  const before = { resident: statusBytes('VmRSS'), allocator: memoryStatistics('cpu').bytesInUse };
  resetPeakMemory('cpu');
  await body();
  return {
    resident: statusBytes('VmHWM') - before.resident,
    allocator: memoryStatistics('cpu').peakBytes - before.allocator,
  };
}
