import {
  type CommunicationAxis,
  type GroupDeclaration,
  isDenseAxis,
  type MeshAxis,
  type MeshCoordinates,
  type ProcessMesh,
} from '@mtl/layout';
import type { BuildGptStagesOptions, LayerFactoryOptions } from '@mtl/models';
import type { GroupsByRole, ListedStore, ModelOptimizerOptions } from '@mtl/optimizer';
import type * as z from 'zod';
import type { FlagFragment, FlagProblem } from '../flags/flag-values.js';
import { optionName } from '../flags/option-names.js';

/** Returns the greatest common divisor of two integers of 0 or more. */
export function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

/** The dimensions of a model, which the sizes of the axes must divide. */
export interface ShardedModel {
  readonly numLayers: number;
  readonly numAttentionHeads: number;
  readonly groupQueryAttention?: boolean | undefined;
  readonly numQueryGroups?: number | undefined;
  readonly ffnHiddenSize: number;
  readonly makeVocabSizeDivisibleBy: number;
  readonly addBiasLinear?: boolean | undefined;
  /** Number of experts in a layer. Absent: MLPs are dense. */
  readonly numExperts?: number | undefined;
  readonly moeFfnHiddenSize?: number | undefined;
  readonly moeSharedExpertIntermediateSize?: number | undefined;
  /**
   * Number of tokens in a sequence. Absent if samples are packed: sequence parallelism then supports any
   * length.
   */
  readonly sequenceLength?: number | undefined;
}

/** Reads the flags of one schema fragment (see `FlagReader`). */
export interface FlagsOf<Fragment extends FlagFragment> {
  get<Name extends keyof Fragment>(name: Name): z.infer<Fragment[Name]> | undefined;
  required<Name extends keyof Fragment>(name: Name): z.infer<Fragment[Name]>;
  isGiven(name: keyof Fragment): boolean;
  conflict(conflict: {
    readonly flags: readonly [keyof Fragment, keyof Fragment];
    readonly why: string;
    readonly remedy?: string;
  }): never;
  needs(flag: keyof Fragment, other: string, why: string): never;
  refuse(name: keyof Fragment, problem: string, error: FlagProblem): never;
  /** Returns true if a value comes from a default or a preset. */
  isDefault(name: keyof Fragment): boolean;
  /** Returns a flag with its value, as the user wrote it. */
  written(name: string): string;
  /** Returns true if a flag's value comes from the loaded checkpoint or directory. */
  isLoaded(name: string): boolean;
}

/** An axis of the mesh, and its size in a run. */
export interface AxisSize {
  readonly axis: MeshAxis;
  /** The name of the axis in messages, such as `tensor`. */
  readonly word: string;
  readonly size: number;
}

/** Returns the axes that divide the processes of a pipeline stage, except expert axes. */
export const axesOfStage = (axes: readonly AxisSize[]): readonly AxisSize[] =>
  axes.filter(({ axis }) => axis !== 'pp' && isDenseAxis(axis));

/** Returns axes as text, such as `tensor 2 x pipeline 1`. */
export const formatAxes = (axes: readonly AxisSize[]): string =>
  axes.map(({ word, size }) => `${word} ${size}`).join(' x ');

/** Returns the number of processes along several axes together. */
export const numAlong = (axes: readonly AxisSize[]): number =>
  axes.reduce((product, { size }) => product * size, 1);

/** Returns the size of an axis, or 1 if no strategy uses the axis. */
export const sizeOfAxis = (axes: readonly AxisSize[], name: MeshAxis): number =>
  axes.find(({ axis }) => axis === name)?.size ?? 1;

export interface StrategyCall<Fragment extends FlagFragment> {
  readonly flags: FlagsOf<Fragment>;
  readonly model: ShardedModel;
  /** Number of processes of the run. */
  readonly worldSize: number;
  /** The axes of the preceding strategies; for `complete` the axes of all strategies. */
  readonly axes: readonly AxisSize[];
  /** Collects messages for the user. */
  readonly notices: string[];
}

/** The options of a model's stages that determine how processes share the model. */
export type ModelSharing = Pick<BuildGptStagesOptions, 'sequence'> &
  Omit<LayerFactoryOptions, 'lora' | 'device'>;

export interface ModelSharingOptions<Fields extends object> {
  readonly groups: GroupsByRole;
  /**
   * The strategy's settings in the run's configuration; empty for a trained model that is used without a run.
   */
  readonly fields: Partial<Fields>;
  /** The routing of tokens to experts that a dry run assumes. */
  readonly assumedRouting?: NonNullable<ModelSharing['expertParallel']>['assumedRouting'];
}

/** The parts of a run that a layout search has already chosen. */
export interface SearchedRun {
  /** The values of the run's flags, keyed by flag name. */
  readonly values: Readonly<Record<string, unknown>>;
  readonly model: 'gpt' | 'bert';
  readonly gpusPerNode: number;
  /** The sizes that are already chosen, keyed by axis. */
  readonly sizes: Readonly<Partial<Record<MeshAxis, number>>>;
  /**
   * How many processes the preceding axes leave. For expert axes, only the processes of a pipeline stage are
   * counted.
   */
  readonly rest: number;
}

export interface SearchedSizes {
  /** The sizes to try if no flag sets the size. */
  readonly sizes: readonly number[];
  /** Returns true if a size divides all dimensions of the model that it must divide. */
  fits(size: number): boolean;
}

/** Returns the powers of two up to `most`. */
export const powersOfTwo = (most: number): number[] =>
  Array.from({ length: Math.floor(Math.log2(most)) + 1 }, (_, power) => 2 ** power);

/** Returns the divisors of a number. */
export const listDivisors = (value: number): number[] =>
  Array.from({ length: value }, (_, index) => index + 1).filter((divisor) => value % divisor === 0);

/** A setting of a layout that a search varies in addition to sizes. */
export interface SearchedSetting {
  /** The key of the setting in the layouts of a search. */
  readonly key: string;
  /**
   * True if the setting changes the forward or backward passes. Times that were measured with one value of
   * the setting then do not apply to other values.
   */
  readonly changesPasses: boolean;
  /**
   * Returns the values to try, in order, given the sizes of the axes. `chosen` has the settings that come
   * earlier in the order of `strategies`.
   */
  choices(sizes: MeshCoordinates, chosen: Readonly<Record<string, unknown>>): readonly unknown[];
  /** The flags that can determine the setting, in the order of decreasing precedence. */
  readonly givenBy: readonly string[];
  /**
   * Returns the setting's value, given the value of a flag in `givenBy`; undefined if the value does not
   * determine the setting.
   */
  given(flag: string, value: unknown): unknown;
  /** Returns the flags that select a value of the setting. */
  flags(value: unknown): Readonly<Record<string, unknown>>;
  /** Returns the JSON entries that record a value of the setting in a layout. */
  recorded(value: unknown): Readonly<Record<string, unknown>>;
  /** Returns the words that describe a value in messages; undefined for the default. */
  words(value: unknown): string | undefined;
}

/** Makes a setting that a flag turns on. `words`: its description if it is on. */
export const switchSetting = ({
  flag,
  words,
  recorded = (value) => (value === true ? { [optionName(flag)]: true } : {}),
  ...setting
}: Pick<SearchedSetting, 'changesPasses' | 'choices'> & {
  readonly flag: string;
  readonly words: string;
  readonly recorded?: SearchedSetting['recorded'];
}): SearchedSetting => ({
  ...setting,
  key: optionName(flag),
  givenBy: [flag],
  given: (_, value) => value,
  flags: (value) => (value === true ? { [flag]: true } : {}),
  recorded,
  words: (value) => (value === true ? words : undefined),
});

/** The cost in time of a change that reduces memory, from the lowest to the highest. */
export const costsOfSaving = ['nothing', 'little', 'some', 'much'] as const;

/** A flag that can reduce the memory that each process needs. */
export interface MemorySaving<Fields extends object> {
  readonly flag: string;
  readonly costs: (typeof costsOfSaving)[number];
  /**
   * Returns the values to try in a run, beginning with the smallest change. Validation rejects impossible
   * values.
   */
  values(run: {
    readonly fields: Fields;
    readonly sizes: MeshCoordinates;
    readonly hasExperts: boolean;
  }): readonly unknown[];
}

/**
 * The options of an optimizer that follow from the run's layout: the store of parameters, the blocks of ranks
 * over which states are sharded, and overlapped communication.
 */
export interface OptimizerSharing
  extends Required<Pick<ModelOptimizerOptions, 'overlapGradientReduction' | 'overlapParameterGather'>> {
  readonly store: ListedStore;
  /**
   * How many blocks of ranks the optimizer's states are replicated over. The ranks of a block together hold
   * all states.
   */
  readonly numInstances: number;
  /** The flag that sets `numInstances`. */
  readonly flagOfInstances: string;
  /** The flag that requests the reduction of gradients during the backward pass. */
  readonly flagOfReduction: string;
}

/** A value of a flag that stands for a different value of the same flag, and turns on a switch. */
export interface ImpliedSwitch {
  readonly flag: string;
  readonly value: string;
  /** The value to use instead. */
  readonly instead: string;
  /** The switch that the value turns on. */
  readonly turnsOn: string;
  /** The remedy for users who have turned the switch off. */
  readonly without: string;
}

/** A trained model that several processes share. */
export interface SharedModel {
  readonly sizes: MeshCoordinates;
  /** The path of the model, for errors. */
  readonly path: string;
}

/** A strategy's functions for a trained model that several processes share. */
export interface StrategySharing<Fragment extends FlagFragment, Fields extends object> {
  /** The help texts of the strategy's flags in commands that use a trained model. */
  readonly help: Readonly<Partial<Record<keyof Fragment & string, string>>>;
  /**
   * Returns the strategy's settings, given the values of its flags.
   *
   * @throws ConfigurationError for sizes that cannot be combined with the preceding axes
   */
  configure(values: Readonly<Record<string, number | undefined>>, axes: readonly AxisSize[]): Partial<Fields>;
  /**
   * Rejects values that do not support generation. Default: every value supports generation.
   *
   * @throws ConfigurationError, whose message contains the possible values
   */
  checkGeneration?(values: Readonly<Record<string, number | undefined>>): void;
  /**
   * Rejects sizes that the model does not support. Default: every size is supported.
   *
   * @throws ConfigurationError, whose message contains the possible sizes
   */
  checkModel?(model: { readonly numExperts?: number | undefined }, shared: SharedModel): void;
}

/**
 * A form of parallelism: its flags and their constraints, the axes of the mesh along which it splits work,
 * and the groups for its communication. `strategies` lists all strategies.
 */
export interface Strategy<
  Fragment extends FlagFragment,
  Fields extends object,
  Completed extends object = object,
> {
  readonly flags: Fragment;
  /** Megatron-LM's other names for the strategy's flags. */
  readonly aliases?: Readonly<Record<string, { readonly flag: keyof Fragment & string }>>;
  /**
   * The axes along which the strategy splits work. All are axes of dense layers, or all are axes of experts.
   */
  readonly axes: readonly {
    readonly name: MeshAxis;
    /** The flag for the size of the axis. Absent: the axis gets the remaining processes. */
    readonly flag?: keyof Fragment & string;
    /** The key of the axis's size in run records. Default: the word of the axis. */
    readonly recordedAs?: string;
    /**
     * The field for the size of the axis. It may be absent or undefined if the size equals the mesh's
     * default.
     */
    readonly field: keyof Fields & string;
    /**
     * True if the last process along the axis may hold less than the other processes, in the first and the
     * last stage.
     */
    readonly differsAtEnds?: true;
    /** Returns the sizes that a layout search tries; undefined if the run cannot use the axis. */
    readonly search?: (run: SearchedRun) => SearchedSizes | undefined;
  }[];
  /** The axis to which time predictions attribute the strategy's communication. */
  readonly countsAs: CommunicationAxis;
  /**
   * Checks the flags, and returns the strategy's settings in a run's configuration.
   *
   * @throws ConfigurationError for invalid values; its message names valid values
   */
  configure(call: StrategyCall<Fragment>): Fields;
  /**
   * Returns further settings of the strategy, after the sizes of all axes have been checked against the
   * number of processes. Default: no further settings.
   *
   * @throws ConfigurationError for invalid values, like `configure`
   */
  complete?(fields: Fields, call: StrategyCall<Fragment>): Completed;
  /** The only kind of model that the strategy supports. Default: all kinds. */
  readonly kind?: 'gpt';
  /**
   * True if forward and backward passes communicate along the strategy's axes on the device. CUDA graphs
   * cannot record such communication.
   */
  readonly communicatesInPasses?: true;
  /**
   * Functions for a trained model that several processes share. Absent: the strategy is only for training.
   */
  readonly sharing?: StrategySharing<Fragment, Fields>;
  /**
   * Conflicting flags: for each flag, the flags that set the same property differently. A flag overrides the
   * flags in its list that come from a source of lower precedence.
   */
  readonly displaces?: Readonly<
    Partial<Record<keyof Fragment & string, readonly (keyof Fragment & string)[]>>
  >;
  /** Values of other flags, from older versions of Megatron-LM, that imply a switch of the strategy. */
  readonly impliedBy?: readonly ImpliedSwitch[];
  /** The settings that a layout search varies in addition to sizes. */
  readonly settings?: readonly SearchedSetting[];
  /** The flags that can reduce the memory that processes need. */
  readonly savings?: readonly MemorySaving<Fields>[];
  /** The setting values that turn off optional sharding and overlap. */
  readonly undivided?: { readonly [Key in keyof Fields]?: Fields[Key] | undefined };
  /** Returns true if the memory and work of a process depend on the routing of tokens to experts. */
  dependsOnRouting?(fields: Fields): boolean;
  /** Returns the optimizer options that follow from the strategy. Only one strategy has this function. */
  ofOptimizer?(fields: Fields): OptimizerSharing;
  /** Returns the strategy's options for the stages of a process with these groups. Default: no options. */
  ofModel?(options: ModelSharingOptions<Fields>): ModelSharing;
  /**
   * Returns the groups for the strategy's communication, keyed by name; only groups of several processes are
   * opened.
   */
  groups(options: {
    readonly mesh: ProcessMesh;
    /** The pipeline ranks that hold the first and the last layers. */
    readonly ends: readonly [number, number];
    /** The run's settings on which the groups depend (see `AxisSizes`). */
    readonly fields: Partial<Fields>;
  }): Readonly<Record<string, GroupDeclaration>>;
}

/** Returns a strategy unchanged. TypeScript infers the types of its flags and settings from the call. */
export const strategy = <
  Fragment extends FlagFragment,
  Fields extends object,
  Completed extends object = object,
>(
  of: Strategy<Fragment, Fields, Completed>,
): Strategy<Fragment, Fields, Completed> => of;
