import type { JsonObject } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import type { HuggingFaceOrigin } from '@mtl/formats';
import type { BertModelConfiguration, GptModelConfiguration, TransformerConfiguration } from '@mtl/models';
import type { Tokenizer, TokenizerOptions } from '@mtl/tokenizers';
import * as z from 'zod';
import { type AdaptedConfiguration, pickAdapters, savedAdapters } from '../adapters/adapted-configuration.js';
import { type ModelKind, modelKinds } from '../architecture/architecture-field.js';
import { listFields } from '../architecture/fields-of.js';
import { savedConfigurationFormat } from '../command-line/config-file.js';
import { isDefaultSource } from '../command-line/resolve-flags.js';
import type { PretrainingConfiguration } from '../pretraining-configuration.js';
import type { Flags } from '../schema/flag-schema.js';
import { valuesWithoutFlag } from './flags-of-model.js';
import { type SavedTokenizer, savedTokenizer, saveTokenizer } from './saved-tokenizer.js';

/** The form in which a configuration is saved with a checkpoint; `--config` can read it. */
export interface ConfigurationJson {
  readonly format: typeof savedConfigurationFormat;
  readonly version: 1;
  readonly preset: string;
  /** Every flag that has a value, by Megatron-LM's names: enough to make the same configuration again. */
  readonly flags: Flags;
  /** The values that the flags resolved to, saved for people to read: loading ignores them. */
  readonly resolved: Omit<PretrainingConfiguration, 'flags' | 'sources' | 'preset' | 'notices'>;
}

/** Returns plain data for JSON.stringify. */
export function configurationJson(configuration: PretrainingConfiguration): ConfigurationJson {
  const { sources, preset, notices: _notices, ...others } = configuration;
  const { flags: given, ...resolved } = others;
  // presets may leave these flags out, and saved flags are read without a preset
  const named = { ...given, 'max-position-embeddings': resolved.model.maxPositionEmbeddings };
  // values that followed from the conversations are computed again on resume
  const isDecided = (name: string): boolean =>
    resolved.data.conversations !== undefined &&
    (name === 'eval-interval' || name === 'eval-iters') &&
    isDefaultSource(sources.get(name));
  const flags = Object.fromEntries(Object.entries(named).filter(([name]) => !isDecided(name))) as Flags;
  return { format: savedConfigurationFormat, version: 1, preset, flags, resolved };
}

/** The configuration of a model by its kind. */
export interface ModelOfKind {
  readonly gpt: GptModelConfiguration;
  readonly bert: BertModelConfiguration;
}

/** The keys by which checkpoints save the configuration of their model, by its kind. */
export const savedModelKeys = { gpt: 'gptModel', bert: 'bertModel' } as const satisfies Record<
  ModelKind,
  string
>;

/** Returns the keys of the sizes of a model that checkpoints save; older checkpoints lack newer keys. */
export function listSavedSizes(kind: ModelKind): { readonly required: string[]; readonly others: string[] } {
  const sizes = listFields(kind).filter(([, { isSize }]) => isSize);
  const listKeys = (isRequired: boolean): string[] =>
    sizes.filter(([, field]) => (field.isRequired ?? false) === isRequired).map(([, { key }]) => key);
  return { required: [...listKeys(true), 'vocabularySize'], others: listKeys(false) };
}

/** Returns the schema of a saved model of a kind; older checkpoints lack newer keys. */
function savedModelSchema(kind: ModelKind): z.ZodType {
  const values = listFields(kind).map(([name, { key, flag, isSize, isRequired, conversion }]) => {
    const other = valuesWithoutFlag[name];
    const ofFlag = other === undefined ? flag : z.union([flag, z.literal(other)]);
    const schema = conversion?.saved ?? (isSize ? z.int() : ofFlag);
    return [key, isRequired ? schema : schema.optional()] as const;
  });
  return z.looseObject({ ...Object.fromEntries(values), vocabularySize: z.int() });
}

/** The data of a training run. */
export interface TrainedOn {
  /** The words of --data-path, or the prefix of the bundled corpus. */
  readonly dataPath: readonly string[];
  readonly split: string;
}

/** The algorithms that a run with --time-matmuls chose for its matmuls. */
export interface RecordedMatmuls {
  /** The platform that they were timed on: a run on another platform does not use them. */
  readonly platform: string;
  /** The algorithm of each problem, both as the kernels name them. */
  readonly choices: Readonly<Record<string, string>>;
}

/** The saved configuration of the run that wrote a checkpoint, the same for pretraining and fine-tuning. */
interface SavedRun extends AdaptedConfiguration {
  /** The flags of the run; absent in checkpoints of fine-tuning. */
  readonly flags?: Flags;
  readonly resolved?: ConfigurationJson['resolved'];
  /**
   * CPU threads of rank 0: a resumed run needs the same number to repeat its results. Absent in older
   * checkpoints.
   */
  readonly threads?: number;
  /** The algorithms that were chosen for matmuls; absent if none were. A resumed run uses them again. */
  readonly matmuls?: RecordedMatmuls;
  /** The data of the run; absent if no training run has written the checkpoint. */
  readonly trainedOn?: TrainedOn;
  /** The origin of a model that came from a Hugging Face directory. */
  readonly huggingFace?: HuggingFaceOrigin;
}

/** The configuration that a checkpoint saves: enough to use its model without a flag. */
export interface SavedConfiguration<Kind extends ModelKind = ModelKind> extends SavedRun {
  readonly kind: Kind;
  readonly model: ModelOfKind[Kind];
  /** The tokenizer; its files are copies in the folder `tokenizer` next to the checkpoints. */
  readonly tokenizer: TokenizerOptions | undefined;
}

/** The schema of the saved parts of a run that are read again. */
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
  /** A GptModelConfiguration or a BertModelConfiguration, as `configuration.kind` tells. */
  readonly model: TransformerConfiguration;
  /** The tokenizer of the run; undefined if the model came without one. */
  readonly tokenizer: Pick<Tokenizer, 'options'> | undefined;
  /** CPU threads of the run; undefined if nothing was trained. */
  readonly threads?: number | undefined;
  /** The algorithms that were chosen for matmuls. Default: none. */
  readonly matmuls?: RecordedMatmuls | undefined;
  /** The data of the run; undefined if nothing was trained. */
  readonly data: TrainedOn | undefined;
  /** The origin of a model that came from a Hugging Face directory. */
  readonly huggingFace?: HuggingFaceOrigin | undefined;
}

/**
 * Copies the tokenizer's files next to the checkpoints, and returns the configuration for each checkpoint.
 *
 * @throws CheckpointError MTL_CHECKPOINT_IO when they cannot be copied
 */
export async function saveConfiguration(options: SaveConfigurationOptions): Promise<JsonObject> {
  const { directory, configuration, model, threads, matmuls, data, huggingFace } = options;
  const saved = {
    ...configurationJson(configuration),
    [savedModelKeys[configuration.kind]]: model,
    ...(await saveTokenizer(directory, options.tokenizer)),
    ...(threads === undefined ? {} : { threads }),
    ...(matmuls === undefined ? {} : { matmuls }),
    ...(data === undefined ? {} : { trainedOn: data }),
    ...(huggingFace === undefined ? {} : { huggingFace }),
    ...pickAdapters(configuration),
  };
  // JSON leaves undefined values out
  return JSON.parse(JSON.stringify(saved)) as JsonObject;
}

/** The place of a checkpoint. */
export interface CheckpointPlace {
  /** The directory that holds the checkpoints. */
  readonly directory: string;
  /** The path of the checkpoint, for messages. */
  readonly path: string;
}

/**
 * Reads the saved configuration from a checkpoint of a model of this kind, with the paths of the copied
 * tokenizer files.
 *
 * @throws CheckpointError MTL_CHECKPOINT_STATE when it has no model of this kind, or a part cannot be read
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
    ...(flags === undefined ? {} : { flags }),
    ...(resolved === undefined ? {} : { resolved }),
    ...(threads === undefined ? {} : { threads }),
    ...(matmuls === undefined ? {} : { matmuls }),
    ...(trainedOn === undefined ? {} : { trainedOn }),
    ...(huggingFace === undefined ? {} : { huggingFace }),
    ...pickAdapters(run),
  };
}

/**
 * Reads the saved configuration from a checkpoint of a model of any kind.
 *
 * @throws CheckpointError MTL_CHECKPOINT_STATE when it has no model, or a part cannot be read
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
