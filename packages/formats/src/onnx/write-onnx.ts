import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { LogicalTensor } from '@mtl/checkpoint';
import {
  type BertModelConfiguration,
  type BertTask,
  computeHeadSize,
  type GptModelConfiguration,
} from '@mtl/models';
import type { TokenizerFiles } from '../gguf/tokenizer/tokenizer-files.js';
import { chooseBertType, encodeBertConfiguration } from '../huggingface/bert-configuration.js';
import { inOrder } from '../huggingface/config-fields.js';
import { encodeGptConfiguration } from '../huggingface/gpt-configuration.js';
import type { HuggingFaceOrigin } from '../huggingface/huggingface-origin.js';
import { findModelType } from '../huggingface/model-types.js';
import { publishDirectory } from '../huggingface/publish-directory.js';
import { chooseGptType } from '../huggingface/statable-models.js';
import { tokenFields } from '../huggingface/write-huggingface-gpt.js';
import type { OnnxDtype } from './dtype-names.js';
import type { GraphBuilder } from './graph/graph-builder.js';
import { buildBertGraph } from './models/bert-graph.js';
import { buildGptGraph } from './models/gpt-graph.js';
import { onnxDtypes } from './storage/dtypes.js';
import type { Storage } from './storage/storage.js';
import { transformersJsTokenizer } from './tokenizer-files.js';
import { writeOnnxModel } from './write-onnx-model.js';

interface WriteOnnx {
  /**
   * The output directory, which must be missing or empty. It is written under a temporary name and then
   * renamed, so that it is never incomplete.
   */
  readonly directory: string;
  /** All of the model's tensors, each complete. They are read one by one, once for each dtype. */
  readonly tensors: readonly LogicalTensor[];
  /**
   * The dtypes to write. Each dtype gets its own file, and transformers.js loads the first one by default.
   * Default: fp32.
   */
  readonly dtypes?: readonly OnnxDtype[] | undefined;
  /** tokenizer.json and the tokenizer's other files, as for `writeHuggingFaceGpt`. */
  readonly tokenizerFiles: TokenizerFiles;
  /**
   * The maximum size of a file, in bytes. Default: 2 GiB minus 16 MiB, because a browser's buffers cannot be
   * larger.
   */
  readonly mostFileBytes?: number | undefined;
}

/** A GPT and the directory to write. */
export interface WriteOnnxGptOptions extends WriteOnnx {
  readonly model: GptModelConfiguration;
  /** Tokens that end a text. */
  readonly endTokens?: readonly number[];
  /** The JSON fields of the directory from which the model was read. */
  readonly origin?: HuggingFaceOrigin | undefined;
}

/** A BERT and the directory to write. */
export interface WriteOnnxBertOptions extends WriteOnnx {
  readonly model: BertModelConfiguration;
  /**
   * The task for which the model was fine-tuned. Default: none, for a pretrained model with its masked-LM
   * head.
   */
  readonly task?: BertTask | undefined;
  /** The class names of a classification, in order. Default: LABEL_0 and so on. */
  readonly labels?: readonly string[] | undefined;
  /**
   * Only for a tokenizer that consists of a vocab.txt: true if texts are converted to lower case. Default:
   * the value in tokenizer_config.json.
   */
  readonly lowersCase?: boolean | undefined;
}

/**
 * Writes a GPT in the form that transformers.js can load: for each dtype, one file with the graph (including
 * a cache of keys and values), and also the tokenizer and the settings for generation. The vocabulary's
 * padding is dropped.
 *
 * @throws CheckpointError MTL_ONNX_ARCHITECTURE, MTL_ONNX_TOKENIZER, MTL_ONNX_EXISTS, MTL_ONNX_IO,
 *   MTL_NOT_FINITE, MTL_CHECKPOINT_*
 * @throws UsageError MTL_HUGGING_FACE_TENSOR when a tensor is missing or unknown
 */
export async function writeOnnxGpt(options: WriteOnnxGptOptions): Promise<void> {
  const { model, tensors, tokenizerFiles, endTokens = [] } = options;
  const { maxPositionEmbeddings } = model;
  const tokenizer = transformersJsTokenizer(tokenizerFiles, {
    maxPositionEmbeddings,
    endTokens,
    hasTokenTypes: false,
  });
  const { config, generation } = describeGpt(options);
  await writeDirectory(options, {
    build: (storage) => buildGptGraph({ model, tensors, storage }),
    config,
    files: { ...tokenizer, 'generation_config.json': generation },
  });
}

/**
 * Writes a BERT in the form that transformers.js can load. A pretrained model serves the pipelines
 * `fill-mask` and `feature-extraction`; a fine-tuned model serves the pipeline of its task,
 * `text-classification` or `question-answering`.
 *
 * @throws CheckpointError, UsageError the errors of `writeOnnxGpt`; MTL_ONNX_ARCHITECTURE for multiple choice
 */
export async function writeOnnxBert(options: WriteOnnxBertOptions): Promise<void> {
  const { model, tensors, task, tokenizerFiles, lowersCase } = options;
  const { maxPositionEmbeddings } = model;
  const tokenizer = transformersJsTokenizer(tokenizerFiles, {
    maxPositionEmbeddings,
    endTokens: [],
    hasTokenTypes: true,
    lowersCase,
  });
  await writeDirectory(options, {
    build: (storage) => buildBertGraph({ model, tensors, task, storage }),
    config: encodeBertConfiguration(model, {
      dtype: 'float32',
      paddingToken: 0,
      className: chooseBertClass(model, task),
      labels: listLabels(options),
    }),
    files: tokenizer,
  });
}

function listLabels({ task, labels }: WriteOnnxBertOptions): readonly string[] | undefined {
  if (task?.kind !== 'classification') return undefined;
  return labels ?? Array.from({ length: task.numClasses }, (_, index) => `LABEL_${index}`);
}

function chooseBertClass(model: BertModelConfiguration, task: BertTask | undefined): string {
  const family = chooseBertType(model) === 'roformer' ? 'RoFormer' : 'Bert';
  const heads = { classification: 'SequenceClassification', span: 'QuestionAnswering' } as const;
  const head = task === undefined || task.kind === 'multiple-choice' ? 'MaskedLM' : heads[task.kind];
  return `${family}For${head}`;
}

/**
 * Returns the contents of a GPT's config.json and generation_config.json. If a model type of the transformers
 * library describes the model, and if transformers.js knows this type's cache, config.json names this type.
 * Otherwise, config.json describes a `llama` with the model's sizes. This is sufficient, because
 * transformers.js reads only sizes from config.json, and everything else from the graph.
 */
function describeGpt({ model, endTokens = [], origin }: WriteOnnxGptOptions) {
  const described = chooseGptType(model, origin?.config.model_type as string | undefined);
  const isKnown = described !== undefined && findModelType(described)!.lacksOnnxCache !== true;
  const modelType = isKnown ? described : undefined;
  const own = origin?.config.model_type === modelType ? origin : undefined;
  const { inConfig, inGeneration } = tokenFields(modelType ?? 'llama', { origin: own, endTokens });
  const { hiddenSize, numLayers, numAttentionHeads, vocabularySize, maxPositionEmbeddings } = model;
  const config =
    modelType === undefined
      ? {
          architectures: ['LlamaForCausalLM'],
          model_type: 'llama',
          hidden_size: hiddenSize,
          num_hidden_layers: numLayers,
          num_attention_heads: numAttentionHeads,
          num_key_value_heads: model.groupQueryAttention === true ? model.numQueryGroups : numAttentionHeads,
          head_dim: computeHeadSize(model),
          vocab_size: vocabularySize,
          max_position_embeddings: maxPositionEmbeddings,
          ...inConfig,
        }
      : encodeGptConfiguration(model, { modelType, dtype: 'float32', tokens: inConfig });
  return { config, generation: { ...own?.generation, ...inGeneration } };
}

/** The parts of a written directory that depend on the model. */
interface DirectoryContents {
  build(storage: Storage): GraphBuilder;
  readonly config: Readonly<Record<string, unknown>>;
  /** JSON files by their names. */
  readonly files: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

async function writeDirectory(
  options: WriteOnnx,
  { build, config, files }: DirectoryContents,
): Promise<void> {
  const { directory: target, dtypes = ['fp32'], mostFileBytes: mostBytes } = options;
  const codes = { exists: 'MTL_ONNX_EXISTS', failed: 'MTL_ONNX_IO' } as const;
  const graphs = dtypes.map((dtype) => {
    const { suffix, storage } = onnxDtypes[dtype];
    return { fileName: `model${suffix}.onnx`, graph: build(storage) };
  });
  await publishDirectory({ directory: target, ...codes }, async (directory) => {
    const folder = join(directory, 'onnx');
    await mkdir(folder);
    const numFiles: Record<string, number> = {};
    for (const { fileName, graph } of graphs) {
      const count = await writeOnnxModel({ directory: folder, fileName, graph, mostBytes });
      if (count > 0) numFiles[fileName] = count;
    }
    const settings = {
      dtype: dtypes[0],
      ...(Object.keys(numFiles).length > 0 && { use_external_data_format: numFiles }),
      ...(dtypes.includes('fp16') && { kv_cache_dtype: { fp16: 'float16' } }),
    };
    const all = { 'config.json': inOrder({ ...config, 'transformers.js_config': settings }), ...files };
    for (const [name, contents] of Object.entries(all)) {
      await writeFile(join(directory, name), `${JSON.stringify(contents, null, 2)}\n`);
    }
  });
}
