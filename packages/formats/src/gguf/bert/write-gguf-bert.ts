import type { LogicalTensor } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import type { BertModelConfiguration } from '@mtl/models';
import { generalMetadata } from '../general-metadata.js';
import { bool, float32, type Metadata, uint32 } from '../metadata.js';
import { type GgufDtype, replacedTypesNotice, storedType } from '../stored-dtypes.js';
import { tensorSources } from '../tensor-sources.js';
import type { TokenizerFiles } from '../tokenizer/tokenizer-files.js';
import { wordPieceMetadata } from '../tokenizer/word-piece-metadata.js';
import { writeGgufFile } from '../write-gguf-file.js';
import { ggufBertNames, isOfHead } from './bert-weight-names.js';

/** The BERT to write, and options for the GGUF file. */
export interface WriteGgufBertOptions {
  /** The output path, which must not exist. The file appears atomically, with one rename. */
  readonly path: string;
  readonly model: BertModelConfiguration;
  /** All of the model's tensors, each complete. They are read one by one. The heads' tensors are ignored. */
  readonly tensors: readonly LogicalTensor[];
  /** The dtype of the matrices in the file; vectors are always float32. Default: float32. */
  readonly dtype?: GgufDtype;
  /** The tokenizer's files, which must contain a tokenizer.json with WordPiece, or a vocab.txt. */
  readonly tokenizerFiles: TokenizerFiles;
  /**
   * Only for a vocab.txt: true if texts are converted to lower case. Default: the value in
   * tokenizer_config.json.
   */
  readonly lowersCase?: boolean | undefined;
  /** The model's name in the file. Default: no name. */
  readonly name?: string | undefined;
}

/**
 * llama.cpp's code for mean pooling, the mean of the last layer's outputs (see `llama_pooling_type` in
 * llama.h).
 */
const meanPooling = 1;

/**
 * Rejects a BERT that llama.cpp would compute differently.
 *
 * @throws CheckpointError MTL_GGUF_ARCHITECTURE, whose message names the property
 */
function checkBert({ layerNormPlacement, positionEmbeddingType }: BertModelConfiguration): void {
  const problem =
    layerNormPlacement === 'pre'
      ? 'layer norms before the sublayers'
      : positionEmbeddingType === 'rope'
        ? 'rotary positions'
        : undefined;
  if (problem === undefined) return;
  throw new CheckpointError(
    'MTL_GGUF_ARCHITECTURE',
    `GGUF: the architecture bert of llama.cpp does not compute ${problem}`,
    {
      expected: 'a BERT with learned positions and layer norms after the sublayers',
      remedy: 'train a BERT with these, or write this one with --save-hf DIR',
      exitCode: 2,
    },
  );
}

const bertMetadata = (model: BertModelConfiguration): Metadata => ({
  'bert.context_length': uint32(model.maxPositionEmbeddings),
  'bert.embedding_length': uint32(model.hiddenSize),
  'bert.block_count': uint32(model.numLayers),
  'bert.feed_forward_length': uint32(model.ffnHiddenSize),
  'bert.vocab_size': uint32(model.vocabularySize),
  'bert.attention.head_count': uint32(model.numAttentionHeads),
  'bert.attention.layer_norm_epsilon': float32(model.layerNormEpsilon),
  'bert.attention.causal': bool(false),
  'bert.pooling_type': uint32(meanPooling),
  'tokenizer.ggml.token_type_count': uint32(model.tokenTypeVocabularySize),
});

/**
 * Writes the encoder of a BERT as a GGUF file. llama.cpp computes embeddings of texts with such a file, as
 * the mean of the last layer's outputs. Heads and the vocabulary's padding are omitted.
 *
 * @returns notices for the user
 * @throws CheckpointError MTL_GGUF_ARCHITECTURE, MTL_GGUF_TOKENIZER, MTL_GGUF_EXISTS, MTL_GGUF_IO,
 *   MTL_NOT_FINITE, MTL_CHECKPOINT_*
 */
export async function writeGgufBert(options: WriteGgufBertOptions): Promise<readonly string[]> {
  const { path, model, tensors, dtype = 'float32', tokenizerFiles, lowersCase } = options;
  checkBert(model);
  const { vocabularySize, numLayers } = model;
  const tokenizer = wordPieceMetadata({ files: tokenizerFiles, vocabularySize, lowersCase });
  // the file has no output head, so llama.cpp stores the embedding in the type that it uses for heads
  const typed = { numLayers, tieEmbeddings: true };
  const written = tensorSources({
    names: ggufBertNames(model),
    tensors: tensors.filter(({ name }) => !isOfHead(name)),
    chooseType: (tensor) => storedType(tensor, dtype, typed),
  });
  const notice = replacedTypesNotice(written, dtype, typed);
  await writeGgufFile({
    path,
    metadata: { ...generalMetadata('bert', options), ...bertMetadata(model), ...tokenizer.metadata },
    tensors: written,
  });
  return [...tokenizer.notices, ...(notice === undefined ? [] : [notice])];
}
