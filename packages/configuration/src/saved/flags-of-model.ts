import { CheckpointError, ConfigurationError } from '@mtl/errors';
import { listModelTypes } from '@mtl/formats';
import { asStatedBy } from '@mtl/formats/internal';
import type { PositionVariants, TransformerConfiguration } from '@mtl/models';
import type { TokenizerOptions } from '@mtl/tokenizers';
import { flagValue, type ModelKind, unstatedValue } from '../architecture/architecture-field.js';
import { architectureFields, rotaryScalingFields } from '../architecture/architecture-fields.js';
import { expertFields } from '../architecture/expert-fields.js';
import { type ArchitectureFlag, architectureFlagNames, listFields } from '../architecture/list-fields.js';
import { displacedFlags, isDefaultSource, type LoadedFlags } from '../command-line/resolve-flags.js';
import type { PretrainingConfiguration } from '../pretraining-configuration.js';
import { type FlagName, type Flags, writeFlags } from '../schema/flag-schema.js';
import { listTokenizerFlags } from './saved-tokenizer.js';

/** The configuration of a model, a GptModelConfiguration or a BertModelConfiguration depending on `kind`. */
export interface KindOfModel {
  readonly kind: ModelKind;
  readonly model: TransformerConfiguration;
}

/**
 * Values that loaded models may have but flags may not. For example, the transformers library accepts 0 for
 * the standard deviation of the initialization.
 */
export const valuesWithoutFlag: Readonly<Partial<Record<FlagName, number>>> = { 'init-method-std': 0 };

/** Flags that determine a model's weights or its computation, in the order of help. */
const weightFlagNames = architectureFlagNames(({ decides }) => decides === 'weights');

/**
 * Returns the flags of a model's architecture without the vocabulary size, which the tokenizer determines. If
 * a property is missing, as in old checkpoints, the flag describes the computation of a model without the
 * property.
 */
export function architectureFlags({ kind, model }: KindOfModel): Flags {
  const stated = { ...model, kind } as Readonly<Record<string, unknown>>;
  const values = listFields(kind).flatMap(([name, field]) => {
    const value = flagValue(field, stated[field.key]) ?? unstatedValue(field, stated);
    const isUsed = !(field.isUnused?.(stated) ?? false);
    const hasFlag = value !== undefined && value !== valuesWithoutFlag[name];
    return isUsed && hasFlag ? [[name, value] as const] : [];
  });
  return Object.fromEntries(values) as Flags;
}

/** The differences between two models of the same kind, as flags on a command line. */
interface DifferingFlags {
  readonly one: string;
  readonly other: string;
  /**
   * How to change the second model's flags to get the first model: `pass --num-layers 2, leave out
   * --window-size`.
   */
  readonly toGetOne: string;
}

/**
 * Compares the flags that determine the weights of two models of the same kind. Returns undefined if all are
 * equal.
 */
export function differingFlags(
  kind: ModelKind,
  models: { readonly one: TransformerConfiguration; readonly other: TransformerConfiguration },
): DifferingFlags | undefined {
  const [one, other] = [models.one, models.other].map((model) => architectureFlags({ kind, model })) as [
    Flags,
    Flags,
  ];
  const names = weightFlagNames.filter((name) => one[name] !== other[name]);
  if (names.length === 0) return undefined;
  const [passed, leftOut] = [true, false].map((isSet) =>
    names.filter((name) => (one[name] !== undefined) === isSet),
  ) as [typeof names, typeof names];
  const actions = [
    ...(passed.length > 0 ? [`pass ${writeFlags(one, passed)}`] : []),
    ...(leftOut.length > 0 ? [`leave out ${leftOut.map((name) => `--${name}`).join(' ')}`] : []),
  ];
  return { one: writeFlags(one, names), other: writeFlags(other, names), toGetOne: actions.join(', ') };
}

interface CheckSameArchitectureOptions {
  readonly kind: ModelKind;
  /** The model of the checkpoint. */
  readonly saved: TransformerConfiguration;
  /** The model to train. */
  readonly built: TransformerConfiguration;
  /** The path of the checkpoint. */
  readonly path: string;
}

/**
 * Rejects a checkpoint whose model differs from the model to train. The error names the flags that differ.
 *
 * @throws CheckpointError MTL_CHECKPOINT_MODEL
 */
export function checkSameArchitecture({ kind, saved, built, path }: CheckSameArchitectureOptions): void {
  const differing = differingFlags(kind, { one: saved, other: built });
  if (differing === undefined) return;
  const { one: there, other: here, toGetOne } = differing;
  throw new CheckpointError(
    'MTL_CHECKPOINT_MODEL',
    `${path} holds a model of ${there}, and this one has ${here}`,
    {
      expected: 'the model that was saved',
      remedy: `${toGetOne}, or leave those flags out: --load has them; the other model is trained without --load`,
      exitCode: 2,
    },
  );
}

/**
 * Rejects a model whose architecture config.json of a Hugging Face directory cannot describe. A run that will
 * write such a directory calls this function at its start.
 *
 * @throws ConfigurationError MTL_HUGGING_FACE_LAYER_NORM for a BERT with layer norm before each sublayer,
 *   MTL_HUGGING_FACE_ARCHITECTURE for any other property
 */
export function checkHuggingFaceArchitecture({ kind, model }: KindOfModel): void {
  const flags = architectureFlags({ kind, model });
  const recorded = listModelTypes(kind).flatMap((type): Recorded[] => {
    const stated = asStatedBy(type, model);
    if (stated === undefined) return [];
    const read = architectureFlags({ kind, model: stated });
    return [{ type, read, lost: weightFlagNames.filter((name) => read[name] !== flags[name]) }];
  });
  const [nearest] = recorded.sort((one, other) => one.lost.length - other.lost.length);
  if (nearest?.lost.length === 0) return;
  throw refused({ kind, flags, nearest });
}

/** The architecture that would be read back from a directory of a model type. */
interface Recorded {
  readonly type: string;
  readonly read: Flags;
  /** Flags whose values would change. */
  readonly lost: ReadonlyArray<(typeof weightFlagNames)[number]>;
}

function refused({
  kind,
  flags,
  nearest,
}: {
  readonly kind: KindOfModel['kind'];
  readonly flags: Flags;
  readonly nearest: Recorded | undefined;
}): ConfigurationError {
  const { type, read, lost } = nearest ?? { type: kind, read: {}, lost: [] };
  const what = lost.length === 0 ? 'these sizes' : writeFlags(flags, lost);
  return new ConfigurationError(
    lost[0] === 'layer-norm-placement' ? 'MTL_HUGGING_FACE_LAYER_NORM' : 'MTL_HUGGING_FACE_ARCHITECTURE',
    `a model of ${what} cannot be written for the transformers library; ` +
      `its nearest model type that can be, ${type}, does not have it`,
    {
      expected: writeFlags(read, lost),
      remedy: 'leave --save-hf out, or train a model with that value',
      details: { flag: lost[0] },
    },
  );
}

/**
 * The position-embedding flags that a run may change for a GPT that has rotary position embeddings and comes
 * from Hugging Face, with the allowed values. The changes let the model process longer sequences than in
 * pretraining.
 */
const rotaryFlags: NonNullable<LoadedFlags['alternatives']> = {
  'position-embedding-type': ['rope', 'yarn'],
  'rotary-base': 'all',
  'rotary-seq-len-interpolation-factor': 'all',
  'use-rope-scaling': 'all',
  'rope-scaling-factor': 'all',
  ...Object.fromEntries(Object.keys(rotaryScalingFields).map((name) => [name, 'all'] as const)),
  'max-position-embeddings': 'all',
};

/**
 * Returns the position-embedding flags that a run may change for a loaded model, with the allowed values.
 * Empty if the position embeddings are not rotary.
 */
function rotaryAlternatives({ kind, model }: KindOfModel): NonNullable<LoadedFlags['alternatives']> {
  const { positionEmbeddingType } = model as PositionVariants;
  const isRotary = positionEmbeddingType === 'rope' || positionEmbeddingType === 'yarn';
  if (kind !== 'gpt' || !isRotary) return {};
  return rotaryFlags;
}

/**
 * Returns a loaded model with the rotary position embeddings that a run requests. `asked` is the model that
 * the run's flags describe. Only values from the user are used, not defaults of flags.
 */
export function withAskedPositions<Model extends TransformerConfiguration>(
  { kind, sources }: Pick<PretrainingConfiguration, 'kind' | 'sources'>,
  { model, asked }: { readonly model: Model; readonly asked: TransformerConfiguration },
): Model {
  const alternatives = rotaryAlternatives({ kind, model });
  const values = architectureFlags({ kind, model: asked });
  const fields = listFields(kind);
  const names = fields.flatMap(([name]): readonly FlagName[] => {
    const may = alternatives[name];
    const isAllowed = may === 'all' || (may ?? []).includes(values[name]);
    return isAllowed && !isDefaultSource(sources.get(name)) ? [name] : [];
  });
  const listKeys = (chosen: readonly FlagName[]): readonly string[] =>
    fields.filter(([name]) => chosen.includes(name)).map(([, { key }]) => key);
  const keys = listKeys(names);
  const replaced = listKeys([...names, ...names.flatMap((name) => displacedFlags[name] ?? [])]);
  const kept = Object.entries(model).filter(([key]) => !replaced.includes(key));
  const stated = Object.entries(asked).filter(([key]) => keys.includes(key));
  return Object.fromEntries([...kept, ...stated]) as unknown as Model;
}

interface FlagsOfHuggingFaceOptions extends KindOfModel {
  readonly directory: string;
  /**
   * The tokenizer of the directory; undefined if the directory has none, or if the user chooses a different
   * tokenizer.
   */
  readonly tokenizer: TokenizerOptions | undefined;
}

/**
 * Returns the flags that a run gets from a Hugging Face directory, and the flags for which `withLoadedFlags`
 * rejects any other value.
 */
export function flagsOfHuggingFace(options: FlagsOfHuggingFaceOptions): LoadedFlags {
  const { directory, kind, model, tokenizer } = options;
  const ofModel = architectureFlags({ kind, model });
  const fields = listFields(kind).filter(([name, { decides }]) => decides !== 'padding' && name in ofModel);
  const values = Object.fromEntries(fields.map(([name]) => [name, ofModel[name]])) as Flags;
  const fixed = (decides: string): readonly FlagName[] =>
    fields
      .filter(([name, field]) => field.decides === decides && !isReplaceable(name, values[name]))
      .map(([name]) => name);
  return {
    source: `Hugging Face directory ${directory}`,
    values: {
      ...values,
      'seq-length': model.maxPositionEmbeddings,
      ...(tokenizer === undefined ? {} : listTokenizerFlags(tokenizer)),
    },
    fixed: [...fixed('weights'), ...fixed('learning')],
    alternatives: rotaryAlternatives(options),
    ...(tokenizer === undefined ? {} : { tokenizer }),
    vocabularySize: model.vocabularySize,
  };
}

/**
 * Returns true if a run may change a flag of a model from Hugging Face. The run may change how experts are
 * trained. It may remove a sentence-order head, but not add one.
 */
function isReplaceable(name: ArchitectureFlag, value: unknown): boolean {
  if (name === 'bert-no-binary-head') return value === false;
  return Object.hasOwn(expertFields, name) && architectureFields[name].decides === 'learning';
}
