import { Adamw, stateBytesPerElement } from '@mtl/optimizer';
import { oneStage, type PassKind, type PipelineSchedule, waitingTensors } from '@mtl/pipeline/schedules';
import { type Chunk, type ChunkMemory, chunkMemory } from './chunk-memory.js';
import type { MemoryShape } from './memory-shape.js';
import { slotMemory } from './slot-memory.js';

/** Bytes of one rank, by what they are for. */
export interface MemoryPrediction {
  /** Parameters as the model computes with them. */
  readonly parameters: number;
  /** float32 main gradients. */
  readonly gradients: number;
  /** float32 master weights (where they are not the parameters themselves) and the optimizer’s states. */
  readonly optimizer: number;
  /** What passes before the one at the peak have kept, of all micro-batches that are under way. */
  readonly activations: number;
  /** The most that the pass at the peak needs besides, boundary tensors that lie ready included. */
  readonly temporary: number;
  readonly total: number;
}

/**
 * Bytes that training one micro-batch at a time takes on one rank, operation by operation as these layers
 * keep them: layer-norm and GELU outputs are computed again in backward and attention never stores S x S, so
 * a layer keeps its input, the projection qkv (3H), the attention output, the input of the second norm and
 * the widened activations (F):
 *
 *   S B e (2H + 4H/t + F/t)  +  16 S B  +  4 S B A/t
 *
 * bytes with e bytes per element, 8 S B for the statistics of each layer norm and 4 for each row of
 * attention; sequence parallelism divides 2H and 16 by t as well. Korthikanti et al. 2022 (table 2) count
 * stored masks, norms and attention matrices besides. The peak comes in backward, either at the logits or in
 * the last layer's feed-forward network. A BERT has other ends (`endsMemory`) and the same layers; its
 * prediction is for samples that fill their sequences.
 */
export function predictMemory(shape: MemoryShape): MemoryPrediction {
  return predictStages(shape).reduce((most, each) => (each.total > most.total ? each : most));
}

/**
 * Bytes of each rank of a pipeline: of its own layers, and at the worst moment of its schedule what its
 * micro-batches keep, until their input half and until their weight half, with what the pass of that moment
 * adds and the boundary tensors that lie ready.
 */
export function predictStages(shape: MemoryShape): readonly MemoryPrediction[] {
  const { schedule, numLayers } = shape.pipeline ?? {
    schedule: oneStage(1),
    numLayers: [shape.numLayers],
  };
  const chunks = numLayers.map(
    (count, index): Chunk => ({
      numLayers: count,
      isFirst: index === 0,
      isLast: index === numLayers.length - 1,
    }),
  );
  const memories = chunks.map((chunk) => chunkMemory(shape, chunk));
  const waiting = waitingTensors(schedule);
  return schedule.actions.map((actions, rank): MemoryPrediction => {
    const own = chunks.filter((_, chunk) => schedule.placement[chunk] === rank);
    const passes = { actions, memories, chunks, waiting: waiting[rank]! };
    const peak = shape.cudaGraphs ? peakOfSlots(passes) : peakOfPasses(passes);
    const state = statesOf(shape, parametersOf(shape, own));
    const total = state.parameters + state.gradients + state.optimizer + peak.activations + peak.temporary;
    return { ...state, ...peak, total };
  });
}

type Peak = Pick<MemoryPrediction, 'activations' | 'temporary'>;

/** The passes of a rank, and of all chunks what they need. */
interface Passes {
  readonly actions: PipelineSchedule['actions'][number];
  /** Boundary tensors that lie ready at each action. */
  readonly waiting: readonly number[];
  readonly chunks: readonly Chunk[];
  readonly memories: readonly ChunkMemory[];
}

function peakOfPasses({ actions, memories, waiting }: Passes): Peak {
  let [kept, activations, temporary] = [0, 0, 0];
  actions.forEach(({ kind, chunk }, index) => {
    const memory = memories[chunk]!;
    const besides = memory.growth[kind] + waiting[index]! * memory.boundary;
    if (kept + besides > activations + temporary) [activations, temporary] = [kept, besides];
    kept += change(kind, memory);
  });
  return { activations, temporary };
}

/**
 * Of passes that are recorded: of each chunk as many slots as there are micro-batches in flight, all of them
 * always there; besides, the boundary tensors that lie ready, with those that a pass is given and gives.
 */
function peakOfSlots({ actions, memories, waiting, chunks }: Passes): Peak {
  let temporary = 0;
  const slots = chunks.map((): { kinds: Set<PassKind>; inFlight: number; most: number } => {
    return { kinds: new Set(), inFlight: 0, most: 0 };
  });
  actions.forEach(({ kind, chunk }, index) => {
    const slot = slots[chunk]!;
    slot.kinds.add(kind);
    if (kind === 'F') slot.inFlight++;
    slot.most = Math.max(slot.most, slot.inFlight);
    if (kind === 'B' || kind === 'W') slot.inFlight--;
    const { isFirst, isLast } = chunks[chunk]!;
    const exchanged = kind === 'W' ? 0 : Number(!isFirst) + Number(!isLast);
    temporary = Math.max(temporary, (waiting[index]! + exchanged) * memories[chunk]!.boundary);
  });
  const activations = slots.reduce((sum, { kinds, most }, index) => {
    const chunk = chunks[index]!;
    return most === 0 ? sum : sum + most * slotMemory(memories[index]!, { chunk, kinds });
  }, 0);
  return { activations, temporary };
}

/** By how much a pass changes what is kept. */
function change(kind: PassKind, { untilInput, untilWeight }: ChunkMemory): number {
  return { F: untilInput, B: -untilInput, I: untilWeight - untilInput, W: -untilWeight }[kind];
}

function statesOf({ bytesPerElement, optimizerShards }: MemoryShape, numParameters: number) {
  // in float32 the model's values are the master values
  const masterBytes = bytesPerElement === 2 ? 4 : 0;
  return {
    parameters: bytesPerElement * numParameters,
    gradients: 4 * numParameters,
    optimizer: ((masterBytes + stateBytesPerElement(Adamw)) * numParameters) / optimizerShards,
  };
}

function parametersOf(shape: MemoryShape, chunks: readonly Chunk[]): number {
  const { hiddenSize: H, ffnHiddenSize: F, vocabSize: V, tensorParallelSize: t } = shape;
  const matrices = 4 * H * H + 2 * H * F + 3 * H + F;
  const replicated = 6 * H; // both norms, and the biases of the row-parallel products
  const isFirst = chunks.some((chunk) => chunk.isFirst);
  const isLast = chunks.some((chunk) => chunk.isLast);
  const numTables = isFirst && isLast && shape.tieEmbeddings ? 1 : Number(isFirst) + Number(isLast);
  const tables = (numTables * V * H) / t + (isFirst ? shape.maxPositionEmbeddings * H : 0);
  const numLayers = chunks.reduce((sum, chunk) => sum + chunk.numLayers, 0);
  const ofModel = shape.bert === undefined ? (isLast ? 2 * H : 0) : ofBert(shape, { isFirst, isLast });
  return numLayers * (matrices / t + replicated) + tables + ofModel;
}

/** Token types, the norm after the embedding or after the layers, and the heads. */
function ofBert(
  { bert, hiddenSize: H, vocabSize: V, tensorParallelSize: t }: MemoryShape,
  { isFirst, isLast }: { readonly isFirst: boolean; readonly isLast: boolean },
): number {
  const { tokenTypeVocabularySize, layerNormPlacement, sentenceOrderHead } = bert!;
  const norm = (layerNormPlacement === 'post' ? isFirst : isLast) ? 2 * H : 0;
  const dense = H * H + H;
  const heads = dense + 2 * H + V / t + (sentenceOrderHead ? dense + 2 * H + 2 : 0);
  return norm + (isFirst ? tokenTypeVocabularySize * H : 0) + (isLast ? heads : 0);
}
