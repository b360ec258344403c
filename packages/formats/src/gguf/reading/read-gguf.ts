import type { LogicalTensor } from '@mtl/checkpoint';
import { computeHeadSize, type GptModelConfiguration } from '@mtl/models';
import { checkWeightSizes } from '../../huggingface/check-weight-sizes.js';
import { parseGptConfiguration } from '../../huggingface/gpt-configuration.js';
import type { HuggingFaceOrigin } from '../../huggingface/huggingface-origin.js';
import { JsonFields } from '../../huggingface/json-fields.js';
import { MappedWeights } from '../../huggingface/load-mapped-weights.js';
import { type GptTypeName, modelTypes } from '../../huggingface/model-types.js';
import { weightsRefused } from '../../huggingface/weight-files.js';
import { frequencyDivisors } from '../rope-metadata.js';
import { ggufWeightNames } from '../weight-names.js';
import { GgufFile, ggufInvalid } from './gguf-file.js';
import { MetadataFields } from './metadata-fields.js';
import { modelFields, shortestDecimal } from './model-fields.js';
import { readTokenizer } from './read-tokenizer.js';

/** An opened GGUF file with a GPT. */
export interface GgufGpt {
  readonly path: string;
  /** The model type in the transformers library, such as `gpt2` or `llama`. */
  readonly modelType: GptTypeName;
  readonly configuration: GptModelConfiguration;
  /** The ids of the tokens that end a text. */
  readonly endTokens: readonly number[];
  /** The model's config.json fields, as in a directory of the transformers library. */
  readonly origin: HuggingFaceOrigin;
  /**
   * The contents of tokenizer.json and tokenizer_config.json, by file name. Empty if the tokenizer cannot be
   * converted.
   */
  readonly tokenizerFiles: Readonly<Record<string, string>>;
  /** Notes for the user. */
  readonly notices: readonly string[];
  /**
   * Fills the given tensors, or slices of tensors, with values from the file.
   *
   * @throws CheckpointError MTL_GGUF_WEIGHTS, MTL_GGUF_INVALID, MTL_NOT_FINITE
   */
  load(tensors: readonly LogicalTensor[]): Promise<void>;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * The values of `low_freq_factor` and `high_freq_factor` in Llama 3's scaling; all published models have
 * these values.
 */
const [lowFactor, highFactor] = [1, 4];

// the maximum number of frequency factors; there is one factor for each pair of a head's features
const mostFactors = 2 ** 16;

type Fields = ReturnType<typeof modelFields>;

/**
 * Adds Llama 3's rope scaling to the fields if the file has the tensor `rope_freqs.weight`, which contains
 * the frequency factors.
 */
async function withScaling(stated: Fields, file: GgufFile, fields: MetadataFields): Promise<Fields> {
  const name = 'rope_freqs.weight';
  const entry = file.tensors.get(name);
  if (entry === undefined) return stated;
  if (entry.dtype !== 'F32' || entry.numValues > mostFactors) {
    throw ggufInvalid(file.path, `${name} is [${entry.shape.join(', ')}] of ${entry.type}`);
  }
  const bytes = await file.read({ name, requireFinite: true });
  const factors = new Float32Array(bytes.slice().buffer);
  const candidates = [null, ...listScalings(factors, Number(stated.rope_theta))];
  for (const rope_scaling of candidates) {
    const config = { ...stated, rope_scaling };
    const { configuration } = parseGptConfiguration(new JsonFields(file.path, config), padding);
    if (computeHeadSize(configuration) !== 2 * factors.length) break;
    const expected = frequencyDivisors(configuration) ?? new Float32Array(factors.length).fill(1);
    const isEqual = expected.every((factor, index) => Math.abs(factor - factors[index]!) <= 1e-6 * factor);
    if (isEqual) return config;
  }
  throw fields.unsupported(
    `the factors of its frequencies (${name}) are of no scaling that is known here`,
    "factors of Llama 3's scaling with the numbers of a published model",
  );
}

/**
 * Returns the Llama 3 scalings that may have produced the given frequency factors. The largest factor applies
 * to long wavelengths. Each factor between 1 and the largest one determines the original number of positions,
 * so its scaling comes first in the list. For files without such a factor, the list continues with the usual
 * position counts. The caller computes each scaling's factors and compares them with the file's factors.
 */
function listScalings(factors: Float32Array, base: number): readonly Fields['rope_scaling'][] {
  const factor = shortestDecimal(Math.max(...factors));
  const positions = [...factors].flatMap((own, pair) => {
    if (own <= 1 || own >= factor) return [];
    const wavelength = 2 * Math.PI * base ** (pair / factors.length);
    const smooth = (1 / own - 1 / factor) / (1 - 1 / factor);
    return [Math.round(wavelength * (smooth * (highFactor - lowFactor) + lowFactor))];
  });
  return [...new Set([...positions, 8192, ...powersOfTwo])].map((original) => ({
    rope_type: 'llama3',
    factor,
    low_freq_factor: lowFactor,
    high_freq_factor: highFactor,
    original_max_position_embeddings: original,
  }));
}

const powersOfTwo = Array.from({ length: 18 }, (_, exponent) => 2 ** (exponent + 4));

const padding = { makeVocabularySizeDivisibleBy: 128 };

/**
 * Compares the number of experts with the row count of each router. This finds a wrong number of experts
 * before weight names are made for every expert.
 */
function checkExperts(file: GgufFile, numExperts: number | undefined): void {
  if (numExperts === undefined) return;
  const routers = [...file.tensors].filter(([name]) => name.endsWith('.ffn_gate_inp.weight'));
  const other = routers.find(([, { shape }]) => shape[0] !== numExperts);
  if (routers.length > 0 && other === undefined) return;
  const found = other === undefined ? 'it has no router' : `${other[0]} has ${other[1].shape[0]} rows`;
  throw weightsRefused(file, `its metadata declare ${numExperts} experts, and ${found}`);
}

/** The wording of errors about the model's fields. */
const fieldTerms = {
  code: 'MTL_GGUF_INVALID',
  remedy: 'use a file as the program that wrote it left it',
} as const;

/**
 * Opens a GGUF file that contains a GPT-2, Llama, Mixtral, SmolLM3, Qwen2, Qwen3, Qwen2-MoE, Qwen3-MoE or
 * OLMoE in float32, float16, bfloat16 or q8_0. The caller closes it.
 *
 * @throws CheckpointError MTL_GGUF_INVALID for a file that violates the format, MTL_GGUF_DTYPE for an
 *   unsupported tensor type, MTL_GGUF_ARCHITECTURE for an unsupported model, MTL_GGUF_WEIGHTS if tensors and
 *   metadata differ, MTL_GGUF_IO
 */
export async function readGguf(path: string): Promise<GgufGpt> {
  const file = await GgufFile.open(path);
  try {
    const fields = new MetadataFields(path, file.metadata);
    const config = await withScaling(modelFields(fields, file), file, fields);
    const json = new JsonFields(path, config, fieldTerms);
    const { modelType, configuration } = parseGptConfiguration(json, padding);
    // called only after the sizes have been compared with the weights, because the names depend on the sizes
    const names = () => ggufWeightNames(modelType, configuration);
    checkExperts(file, configuration.numExperts);
    checkWeightSizes({
      ...configuration,
      // the number of experts is not checked here, because the routers have different names in GGUF files
      // than in the transformers library; `checkExperts` has already checked it
      numExperts: undefined,
      weights: file,
      stated: { fields: json, table: modelTypes[modelType].fields },
      embedding: 'token_embd.weight',
      naming: { prefix: '' },
      names,
    });
    let weights: MappedWeights | undefined;
    const tokenizer = readTokenizer(fields, configuration.vocabularySize);
    return {
      path,
      modelType,
      configuration,
      endTokens: tokenizer.endTokens,
      origin: { config: { ...config, eos_token_id: tokenizer.endTokens[0] ?? null } },
      tokenizerFiles: tokenizer.files,
      notices: tokenizer.notices,
      load: async (tensors) => {
        weights ??= await MappedWeights.open({ weights: file, names: names() });
        await weights.load(tensors);
      },
      close: async () => await file.close(),
      [Symbol.asyncDispose]: async () => await file.close(),
    };
  } catch (error) {
    await file.close();
    if (error instanceof RangeError) throw ggufInvalid(path, 'its sizes are too large');
    throw error;
  }
}
