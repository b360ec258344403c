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
import type { FlagFragment } from '../flags/flag-values.js';

/** Returns the greatest common divisor of two whole numbers of 0 or more. */
export function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

/** The sizes of a model that must be divisible by the sizes of axes. */
export interface ShardedModel {
  readonly numLayers: number;
  readonly numAttentionHeads: number;
  readonly groupQueryAttention?: boolean | undefined;
  readonly numQueryGroups?: number | undefined;
  readonly ffnHiddenSize: number;
  readonly makeVocabSizeDivisibleBy: number;
  readonly addBiasLinear?: boolean | undefined;
  /** Number of experts of a layer. Absent: feed-forward networks are dense. */
  readonly numExperts?: number | undefined;
  readonly moeFfnHiddenSize?: number | undefined;
  readonly moeSharedExpertIntermediateSize?: number | undefined;
  /** Tokens of a sequence. Absent if sequence parallelism shards packed samples, whatever their length. */
  readonly sequenceLength?: number | undefined;
}

/** Reads flags of one fragment, see `FlagReader`. */
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
  /** Returns whether a value comes from a default or a preset. */
  isDefault(name: keyof Fragment): boolean;
  /** Returns any flag with its value, as the user wrote it. */
  written(name: string): string;
  /** Returns whether a flag has the value of the loaded checkpoint or directory. */
  isLoaded(name: string): boolean;
}

/** An axis of the mesh with its length in a run. */
export interface AxisSize {
  readonly axis: MeshAxis;
  /** The axis's name in texts: `tensor`. */
  readonly word: string;
  readonly size: number;
}

/** Returns the axes that divide the processes of a pipeline stage, without expert axes. */
export const axesOfStage = (axes: readonly AxisSize[]): readonly AxisSize[] =>
  axes.filter(({ axis }) => axis !== 'pp' && isDenseAxis(axis));

/** Returns the number of processes along several axes together. */
export const numAlong = (axes: readonly AxisSize[]): number =>
  axes.reduce((product, { size }) => product * size, 1);

/** Returns the length of an axis; 1 if no strategy splits work along it. */
export const sizeOfAxis = (axes: readonly AxisSize[], name: MeshAxis): number =>
  axes.find(({ axis }) => axis === name)?.size ?? 1;

export interface StrategyCall<Fragment extends FlagFragment> {
  readonly flags: FlagsOf<Fragment>;
  readonly model: ShardedModel;
  /** Number of processes of the run. */
  readonly worldSize: number;
  /** The axes of the strategies before this one; for `complete` the axes of all strategies. */
  readonly axes: readonly AxisSize[];
  /** Collects messages for the user. */
  readonly notices: string[];
}

/** The options of a model's stages that describe how processes share it. */
export type ModelSharing = Pick<BuildGptStagesOptions, 'sequence'> &
  Omit<LayerFactoryOptions, 'lora' | 'device'>;

export interface ModelSharingOptions<Fields extends object> {
  readonly groups: GroupsByRole;
  /**
   * The strategy's part of the run's configuration; empty for a trained model, which is used without a run.
   */
  readonly fields: Partial<Fields>;
  /** The routing of tokens to experts that a dry run assumes. */
  readonly assumedRouting?: NonNullable<ModelSharing['expertParallel']>['assumedRouting'];
}

/** The part of a run that is already chosen while a layout search chooses the rest. */
export interface SearchedRun {
  /** The values of the run's flags, by name. */
  readonly values: Readonly<Record<string, unknown>>;
  readonly model: 'gpt' | 'bert';
  readonly gpusPerNode: number;
  /** The sizes that are already chosen, by axis. */
  readonly sizes: Readonly<Partial<Record<MeshAxis, number>>>;
  /**
   * Number of processes that the previous axes leave: of all processes, and for expert axes of the processes
   * of a pipeline stage.
   */
  readonly rest: number;
}

export interface SearchedSizes {
  /** The sizes to try if no flag gives one. */
  readonly sizes: readonly number[];
  /** Returns whether a size divides the dimensions that it must divide. */
  fits(size: number): boolean;
}

/** Returns the powers of two up to a number. */
export const powersOfTwo = (most: number): number[] =>
  Array.from({ length: Math.floor(Math.log2(most)) + 1 }, (_, power) => 2 ** power);

/** Returns the divisors of a number. */
export const listDivisors = (value: number): number[] =>
  Array.from({ length: value }, (_, index) => index + 1).filter((divisor) => value % divisor === 0);

/** A setting of a layout, other than a size, that a search tries. */
export interface SearchedSetting {
  /** The setting's key in the layouts of a search. */
  readonly key: string;
  /** True if passes depend on the setting, so that measurements with one value do not apply to others. */
  readonly changesPasses: boolean;
  /** Returns the values to try for processes along these axes, in the order in which to try them. */
  choices(sizes: MeshCoordinates): readonly unknown[];
  /** The flags that can set the value, the strongest first. */
  readonly givenBy: readonly string[];
  /** Returns the setting's value that a value of one of these flags means. */
  given(flag: string, value: unknown): unknown;
  /** Returns the flags that set a value. */
  flags(value: unknown): Readonly<Record<string, unknown>>;
  /** Returns the keys and values that record a value in the JSON of a layout. */
  recorded(value: unknown): Readonly<Record<string, unknown>>;
  /** Returns the description of a value in texts; undefined for the default one. */
  words(value: unknown): string | undefined;
}

/** The cost in time of a change that saves memory, from the lowest to the highest. */
export const costsOfSaving = ['nothing', 'little', 'some', 'much'] as const;

/** A flag that reduces the memory of each process. */
export interface MemorySaving<Fields extends object> {
  readonly flag: string;
  readonly costs: (typeof costsOfSaving)[number];
  /** Returns the values to try in a run, nearest first; validation rejects impossible ones. */
  values(run: {
    readonly fields: Fields;
    readonly sizes: MeshCoordinates;
    readonly hasExperts: boolean;
  }): readonly unknown[];
}

/**
 * The part of an optimizer's options that its run's layout decides: storage of parameters, and overlapped
 * communication.
 */
export interface OptimizerSharing
  extends Required<Pick<ModelOptimizerOptions, 'overlapGradientReduction' | 'overlapParameterGather'>> {
  readonly store: ListedStore;
  /** The flag that requests the reduction of gradients during passes. */
  readonly flagOfReduction: string;
}

/** A value of a flag that stands for another value of the flag and a switch. */
export interface ImpliedSwitch {
  readonly flag: string;
  readonly value: string;
  /** The value that it stands for. */
  readonly instead: string;
  /** The switch that the value turns on. */
  readonly turnsOn: string;
  /** The remedy for users who have turned the switch off. */
  readonly without: string;
}

/** A trained model that processes share. */
export interface SharedModel {
  readonly sizes: MeshCoordinates;
  /** The path from which the model was read, for errors. */
  readonly path: string;
}

/** Functions of a strategy for a trained model that processes share. */
export interface StrategySharing<Fragment extends FlagFragment, Fields extends object> {
  /** The strategy's flags of commands that use a trained model, with their help. */
  readonly help: Readonly<Partial<Record<keyof Fragment & string, string>>>;
  /**
   * Returns the strategy's fields for values of these flags, by name.
   *
   * @throws ConfigurationError for sizes that do not fit the previous axes
   */
  configure(values: Readonly<Record<string, number | undefined>>, axes: readonly AxisSize[]): Partial<Fields>;
  /**
   * Rejects values with which processes cannot continue texts. Default: all are possible.
   *
   * @throws ConfigurationError with the possible values
   */
  checkGeneration?(values: Readonly<Record<string, number | undefined>>): void;
  /**
   * Rejects sizes that a model cannot have. Default: every size is possible.
   *
   * @throws ConfigurationError with the possible sizes
   */
  checkModel?(model: { readonly numExperts?: number | undefined }, shared: SharedModel): void;
}

/**
 * A form of parallelism: its flags and their constraints, the axes of the mesh along which it splits work,
 * and the groups for its communication. `strategies` lists all of them.
 */
export interface Strategy<
  Fragment extends FlagFragment,
  Fields extends object,
  Completed extends object = object,
> {
  readonly flags: Fragment;
  /** Names of Megatron-LM for the strategy's flags, in addition to the schema's names. */
  readonly aliases?: Readonly<Record<string, { readonly flag: keyof Fragment & string }>>;
  /** The axes along which the strategy splits work; all are in one view of the mesh. */
  readonly axes: readonly {
    readonly name: MeshAxis;
    /** The flag for the axis's size. Absent: the axis gets the remaining processes. */
    readonly flag?: keyof Fragment & string;
    /** The key of the axis's size in the records of runs. Default: the word of the axis. */
    readonly recordedAs?: string;
    /** The field of the axis's size; it is absent or undefined if the size equals the mesh's default. */
    readonly field: keyof Fields & string;
    /**
     * True if, in the first and the last stage, the last process along the axis may hold less than the
     * others.
     */
    readonly differsAtEnds?: true;
    /** Returns the sizes that a layout search tries; undefined if a run has no such axis. */
    readonly search?: (run: SearchedRun) => SearchedSizes | undefined;
  }[];
  /** The axis under which predictions of time count the communication. */
  readonly countsAs: CommunicationAxis;
  /**
   * Checks the flags and returns the strategy's part of a run's configuration.
   *
   * @throws ConfigurationError for invalid values, with valid ones
   */
  configure(call: StrategyCall<Fragment>): Fields;
  /**
   * Returns the rest of the strategy's part of the configuration, once the axes of all strategies are known
   * to fit the processes. Default: no further part.
   *
   * @throws ConfigurationError as `configure`
   */
  complete?(fields: Fields, call: StrategyCall<Fragment>): Completed;
  /** The only kind of model that the strategy supports. Default: all kinds. */
  readonly kind?: 'gpt';
  /**
   * True if passes communicate along the strategy's axes on the device; CUDA graphs do not record such
   * communication.
   */
  readonly communicatesInPasses?: true;
  /** Functions for a trained model that processes share. Absent: the strategy is only for training. */
  readonly sharing?: StrategySharing<Fragment, Fields>;
  /** For each flag the flags that set the same thing: one from a stronger source overrides the others. */
  readonly displaces?: Readonly<
    Partial<Record<keyof Fragment & string, readonly (keyof Fragment & string)[]>>
  >;
  /** Values of other flags, former names of Megatron-LM's, that also turn on switches of the strategy. */
  readonly impliedBy?: readonly ImpliedSwitch[];
  /** The settings that a layout search tries in addition to sizes. */
  readonly settings?: readonly SearchedSetting[];
  /** The flags that reduce the memory of processes. */
  readonly savings?: readonly MemorySaving<Fields>[];
  /** The fields that turn off optional sharding and overlap. */
  readonly undivided?: Partial<Fields>;
  /** Returns whether the resource use of a process depends on the routing of tokens. */
  dependsOnRouting?(fields: Fields): boolean;
  /** Returns the optimizer options that follow from the strategy. Exactly one strategy has this function. */
  ofOptimizer?(fields: Fields): OptimizerSharing;
  /**
   * Returns the strategy's part of the options of stages, for a process with these groups. Default: no
   * options.
   */
  ofModel?(options: ModelSharingOptions<Fields>): ModelSharing;
  /** Returns the groups that the strategy communicates over, by name, if they have several processes. */
  groups(options: {
    readonly mesh: ProcessMesh;
    /** The pipeline ranks of the first and of the last layers. */
    readonly ends: readonly [number, number];
    /** The fields of the run's configuration that groups depend on (`AxisSizes`). */
    readonly fields: Partial<Fields>;
  }): Readonly<Record<string, GroupDeclaration>>;
}

/** Returns a strategy, with the types of its flags and fields. */
export const strategy = <
  Fragment extends FlagFragment,
  Fields extends object,
  Completed extends object = object,
>(
  of: Strategy<Fragment, Fields, Completed>,
): Strategy<Fragment, Fields, Completed> => of;
