import type { JsonObject } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import type { HuggingFaceOrigin } from '@mtl/formats';
import type { BertModelConfiguration, GptModelConfiguration, TransformerConfiguration } from '@mtl/models';
import type { Tokenizer, TokenizerOptions } from '@mtl/tokenizers';
import * as z from 'zod';
import { type AdaptedConfiguration, pickAdapters, savedAdapters } from '../adapters/adapted-configuration.js';
import { type ModelKind, modelKinds } from '../architecture/architecture-field.js';
import { listFields } from '../architecture/list-fields.js';
import { savedConfigurationFormat } from '../command-line/config-file.js';
import { isDefaultSource } from '../command-line/resolve-flags.js';
import { withoutUndefined } from '../flags/flag-values.js';
import type { PretrainingConfiguration } from '../pretraining-configuration.js';
import type { Flags } from '../schema/flag-schema.js';
import { valuesWithoutFlag } from './flags-of-model.js';
import { type SavedTokenizer, savedTokenizer, saveTokenizer } from './saved-tokenizer.js';

/** A configuration as stored in a checkpoint. `--config` can read it. */
export interface ConfigurationJson {
  readonly format: typeof savedConfigurationFormat;
  readonly version: 1;
  readonly preset: string;
  /**
   * All flags that have a value, under Megatron-LM's names. They are sufficient to make the same
   * configuration again.
   */
  readonly flags: Flags;
  /** The configuration that results from the flags. It is stored for readers and ignored when loading. */
  readonly resolved: Omit<PretrainingConfiguration, 'flags' | 'sources' | 'preset' | 'notices'>;
}

/** Returns the configuration as plain data for JSON.stringify. */
export function configurationJson(configuration: PretrainingConfiguration): ConfigurationJson {
  const { sources, preset, notices: _notices, ...others } = configuration;
  const { flags: given, ...resolved } = others;
  // presets may omit these flags, but saved flags are read without a preset
  const named = { ...given, 'max-position-embeddings': resolved.model.maxPositionEmbeddings };
  // values that follow from the number of conversations are omitted, because a resumed run computes them
  // again
  const isDecided = (name: string): boolean =>
    resolved.data.conversations !== undefined &&
    (name === 'eval-interval' || name === 'eval-iters') &&
    isDefaultSource(sources.get(name));
  const flags = Object.fromEntries(Object.entries(named).filter(([name]) => !isDecided(name))) as Flags;
  return { format: savedConfigurationFormat, version: 1, preset, flags, resolved };
}

/** The type of a model's configuration, keyed by kind of model. */
export interface ModelOfKind {
  readonly gpt: GptModelConfiguration;
  readonly bert: BertModelConfiguration;
}

/** The key of the model's configuration in a checkpoint, keyed by kind of model. */
export const savedModelKeys = { gpt: 'gptModel', bert: 'bertModel' } as const satisfies Record<
  ModelKind,
  string
>;

/**
 * Returns the keys under which checkpoints store a model's sizes. Older checkpoints may lack the keys in
 * `others`.
 */
export function listSavedSizes(kind: ModelKind): { readonly required: string[]; readonly others: string[] } {
  const sizes = listFields(kind).filter(([, { isSize }]) => isSize);
  const listKeys = (isRequired: boolean): string[] =>
    sizes.filter(([, field]) => (field.isRequired ?? false) === isRequired).map(([, { key }]) => key);
  return { required: [...listKeys(true), 'vocabularySize'], others: listKeys(false) };
}

/** Returns the schema of a saved model of a kind. Older checkpoints lack keys that were added later. */
function savedModelSchema(kind: ModelKind): z.ZodType {
  const values = listFields(kind).map(([name, { key, flag, isSize, isRequired, conversion }]) => {
    const other = valuesWithoutFlag[name];
    const ofFlag = other === undefined ? flag : z.union([flag, z.literal(other)]);
    const schema = conversion?.saved ?? (isSize ? z.int() : ofFlag);
    return [key, isRequired ? schema : schema.optional()] as const;
  });
  return z.looseObject({ ...Object.fromEntries(values), vocabularySize: z.int() });
}

/** The data on which a model was trained. */
export interface TrainedOn {
  /** The words of --data-path, or the prefix of the bundled corpus. */
  readonly dataPath: readonly string[];
  readonly split: string;
}

/** The matmul algorithms that a run with --time-matmuls chose. */
export interface RecordedMatmuls {
  /** The platform on which the algorithms were timed. A run on a different platform does not use them. */
  readonly platform: string;
  /** The algorithm for each matmul problem. The names of problems and algorithms come from the kernels. */
  readonly choices: Readonly<Record<string, string>>;
}

/** The description of a run in a checkpoint's configuration, for pretraining and fine-tuning. */
interface SavedRun extends AdaptedConfiguration {
  /** The flags of the run; absent in checkpoints of task fine-tuning. */
  readonly flags?: Flags;
  readonly resolved?: ConfigurationJson['resolved'];
  /**
   * How many CPU threads rank 0 used. A resumed run needs the same number to repeat results. Absent in older
   * checkpoints.
   */
  readonly threads?: number;
  /** The algorithms chosen for matmuls; absent if the run chose none. A resumed run uses them again. */
  readonly matmuls?: RecordedMatmuls;
  /** The data of the run; absent if the checkpoint was not written by a training run. */
  readonly trainedOn?: TrainedOn;
  /** JSON fields of the Hugging Face directory that the model came from. */
  readonly huggingFace?: HuggingFaceOrigin;
}

/** The configuration in a checkpoint. It allows programs to use the checkpoint's model without any flags. */
export interface SavedConfiguration<Kind extends ModelKind = ModelKind> extends SavedRun {
  readonly kind: Kind;
  readonly model: ModelOfKind[Kind];
  /** The tokenizer's options. Its files are copies in the folder `tokenizer` next to the checkpoints. */
  readonly tokenizer: TokenizerOptions | undefined;
}

/** The schema of the stored run settings that are read again. */
const savedRun = z.looseObject({
  flags: z.record(z.string(), z.unknown()).optional(),
  resolved: z.looseObject({}).optional(),
  tokenizer: z.looseObject({ type: z.string() }).optional(),
  matmuls: z.looseObject({ platform: z.string(), choices: z.record(z.string(), z.string()) }).optional(),
  trainedOn: z.looseObject({ dataPath: z.array(z.string()), split: z.string() }).optional(),
  huggingFace: z
    .looseObject({ config: z.looseObject({}), generation: z.looseObject({}).optional() })
    .optional(),
  ...savedAdapters,
});

export interface SaveConfigurationOptions {
  /** The directory of --save. */
  readonly directory: string;
  readonly configuration: PretrainingConfiguration;
  /** A GptModelConfiguration or a BertModelConfiguration, depending on `configuration.kind`. */
  readonly model: TransformerConfiguration;
  /** The tokenizer of the run; undefined if the model has none. */
  readonly tokenizer: Pick<Tokenizer, 'options'> | undefined;
  /** How many CPU threads the run used; undefined if nothing was trained. */
  readonly threads?: number | undefined;
  /** The algorithms that were chosen for matmuls. Default: none. */
  readonly matmuls?: RecordedMatmuls | undefined;
  /** The data of the run; undefined if nothing was trained. */
  readonly data: TrainedOn | undefined;
  /** JSON fields of the Hugging Face directory that the model came from. */
  readonly huggingFace?: HuggingFaceOrigin | undefined;
}

/**
 * Copies the tokenizer's files next to the checkpoints, and returns the configuration to store in each
 * checkpoint.
 *
 * @throws CheckpointError MTL_CHECKPOINT_IO when the files cannot be copied
 */
export async function saveConfiguration(options: SaveConfigurationOptions): Promise<JsonObject> {
  const { directory, configuration, model, threads, matmuls, data, huggingFace } = options;
  const saved = {
    ...configurationJson(configuration),
    [savedModelKeys[configuration.kind]]: model,
    ...(await saveTokenizer(directory, options.tokenizer)),
    threads,
    matmuls,
    trainedOn: data,
    huggingFace,
    ...pickAdapters(configuration),
  };
  // a round trip through JSON removes undefined values
  return JSON.parse(JSON.stringify(saved)) as JsonObject;
}

/** The location of a checkpoint. */
export interface CheckpointPlace {
  /** The directory of checkpoints. */
  readonly directory: string;
  /** The path of the checkpoint, for messages. */
  readonly path: string;
}

/**
 * Parses the configuration in a checkpoint. The model must be of the given kind. The tokenizer's paths become
 * the paths of the copied files.
 *
 * @throws CheckpointError MTL_CHECKPOINT_STATE when the checkpoint has no model of this kind, or an invalid
 *   setting
 */
export function readSavedConfiguration<Kind extends ModelKind>(
  kind: Kind,
  configuration: JsonObject,
  place: CheckpointPlace,
): SavedConfiguration<Kind> {
  if (configuration?.[savedModelKeys[kind]] === undefined) throw otherModel(kind, configuration, place);
  const key = savedModelKeys[kind];
  const run = parse(savedRun, { value: configuration, name: 'configuration', place }) as SavedRun &
    SavedTokenizer;
  const model = parse(savedModelSchema(kind), { value: configuration[key], name: key, place });
  const { flags, resolved, threads, matmuls, trainedOn, huggingFace } = run;
  return {
    kind,
    model: model as ModelOfKind[Kind],
    tokenizer: savedTokenizer(run, place),
    ...withoutUndefined({ flags, resolved, threads, matmuls, trainedOn, huggingFace }),
    ...pickAdapters(run),
  };
}

/**
 * Parses the configuration in a checkpoint with a model of any kind.
 *
 * @throws CheckpointError MTL_CHECKPOINT_STATE when the checkpoint has no model, or an invalid setting
 */
export function readAnySavedConfiguration(
  configuration: JsonObject,
  place: CheckpointPlace,
): SavedConfiguration {
  return readSavedConfiguration(kindIn(configuration) ?? 'gpt', configuration, place);
}

function kindIn(configuration: JsonObject): ModelKind | undefined {
  return modelKinds.find((kind) => configuration?.[savedModelKeys[kind]] !== undefined);
}

function otherModel(kind: ModelKind, configuration: JsonObject, { path }: CheckpointPlace): CheckpointError {
  const other = kindIn(configuration);
  const what =
    other === undefined ? 'does not name the model that it contains' : `holds a ${other.toUpperCase()}`;
  return new CheckpointError('MTL_CHECKPOINT_STATE', `${path} ${what}`, {
    expected: `a checkpoint of a ${kind.toUpperCase()}, that ${kind}-train or mtl convert wrote`,
    remedy: `train one with ${kind}-train, or pass one of the transformers library with --load-hf`,
    exitCode: 2,
  });
}

function parse(
  schema: z.ZodType,
  { value, name, place }: { readonly value: unknown; readonly name: string; readonly place: CheckpointPlace },
): unknown {
  const result = schema.safeParse(value);
  if (result.success) return value;
  const [issue] = result.error.issues;
  const where = [name, ...(issue?.path ?? [])].join('.');
  throw new CheckpointError(
    'MTL_CHECKPOINT_STATE',
    `${place.path}: ${where} of its manifest: ${issue?.message}`,
    {
      expected: 'a checkpoint as --save wrote it',
      remedy: 'load another checkpoint, or copy this one again if it was copied',
      exitCode: 2,
    },
  );
}
