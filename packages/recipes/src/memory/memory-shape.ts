import type { Device } from '@mtl/kernels';
import type { LayerNormPlacement, Recomputation } from '@mtl/models';
import type { PipelineSchedule } from '@mtl/pipeline/schedules';

/** What the memory of one rank depends on. Sizes are those of the whole model and of one micro-batch. */
export interface MemoryShape {
  /** B: samples of a micro-batch. */
  readonly microBatchSize: number;
  /** S */
  readonly sequenceLength: number;
  /** L */
  readonly numLayers: number;
  /** H */
  readonly hiddenSize: number;
  /** F */
  readonly ffnHiddenSize: number;
  /** A */
  readonly numAttentionHeads: number;
  /** V, padded. */
  readonly vocabSize: number;
  readonly maxPositionEmbeddings: number;
  readonly tieEmbeddings: boolean;
  /** Bytes of an activation and of a parameter as the model computes with it: 4, or 2 in half precision. */
  readonly bytesPerElement: 2 | 4;
  /** Whether anything is dropped after the attention's projection and the feed-forward network. */
  readonly hiddenDropout: boolean;
  readonly recomputation: Recomputation;
  /** t */
  readonly tensorParallelSize: number;
  readonly sequenceParallel: boolean;
  /** d: ranks that share optimizer states; 1 without a distributed optimizer. */
  readonly optimizerShards: number;
  /** Where it is trained, which decides how many logits there are at a time. Absent: `cpu`. */
  readonly device?: Device | undefined;
  /** Whether passes are recorded as CUDA graphs. Default: no. */
  readonly cudaGraphs?: boolean | undefined;
  /** What a BERT has in addition to a GPT, or instead; absent for a GPT. */
  readonly bert?: BertShape | undefined;
  /** Absent: all layers on one rank, one micro-batch at a time. */
  readonly pipeline?: PipelineShape | undefined;
}

/** What the memory of a BERT depends on besides; its samples fill their sequences. */
export interface BertShape {
  readonly layerNormPlacement: LayerNormPlacement;
  readonly sentenceOrderHead: boolean;
  readonly tokenTypeVocabularySize: number;
  /** Share of the tokens that the masked-language head reads. */
  readonly maskProbability: number;
}

/** How a model lies on the ranks of a pipeline, and in which order these work. */
export interface PipelineShape {
  readonly schedule: PipelineSchedule;
  /** Layers of each chunk, in the order of the model. */
  readonly numLayers: readonly number[];
}
