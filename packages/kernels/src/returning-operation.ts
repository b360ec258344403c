import { checkedOperation } from './checked-operation.js';
import { Tensor, type TensorOptions } from './tensor.js';

type IsUnion<T, Whole = T> = T extends Whole ? ([Whole] extends [T] ? false : true) : never;

/**
 * The options of a call without outputs. `accumulate` cannot be true, because the outputs are new tensors.
 */
type WithoutOutputs<Options, Names extends keyof Options, Choices> = Omit<Options, Names | 'accumulate'> &
  Choices & { readonly [Name in Names]?: undefined } & { readonly accumulate?: false | undefined };

/**
 * An operation that can be called in two ways: with all outputs, it returns nothing; without outputs, it
 * returns new tensors.
 */
export interface ReturningOperation<Options, Names extends keyof Options, Choices = unknown> {
  (options: Options): void;
  /**
   * Returns a new tensor or, if there are several outputs, an object of new tensors. The caller must dispose
   * of the tensors.
   */
  (
    options: WithoutOutputs<Options, Names, Choices>,
  ): IsUnion<Names> extends true ? { readonly [Name in Names]: Tensor } : Tensor;
  /** The names of the outputs that may be omitted. */
  readonly outputNames: readonly Names[];
}

/** Functions that describe each output of an operation, given the inputs. */
type Outputs<Options, Names extends keyof Options, Choices> = {
  readonly [Name in Names]: (inputs: Omit<Options, Names> & Choices) => Required<TensorOptions>;
};

/**
 * Describes a new tensor with the dtype and device of `tensor`. The default shape is the shape of `tensor`.
 */
export function like(tensor: Tensor, shape: readonly number[] = [...tensor.shape]): Required<TensorOptions> {
  return { shape, dtype: tensor.dtype, device: tensor.device };
}

/**
 * Describes a new tensor for sums or statistics over the elements of `tensor`. Its dtype is float64 if
 * `tensor` is float64, else float32.
 */
export function declareStatistics(tensor: Tensor, shape: readonly number[]): Required<TensorOptions> {
  return { shape, dtype: tensor.dtype === 'float64' ? 'float64' : 'float32', device: tensor.device };
}

/**
 * Returns a checked operation (see `checkedOperation`) whose outputs are optional. A call without outputs
 * returns new tensors.
 *
 * @param name the operation's name in errors
 * @param outputs for each output's name, a function that describes the output
 * @param run runs the operation with all of its outputs
 */
export function returningOperation<
  Options extends object,
  Names extends keyof Options & string,
  Choices = unknown,
>(
  name: string,
  outputs: Outputs<Options, Names, Choices>,
  run: (options: Options) => void,
): ReturningOperation<Options, Names, Choices> {
  const outputNames = Object.keys(outputs) as Names[];
  const first = outputNames[0]!;
  const operation = checkedOperation(name, (options: Options): unknown =>
    options[first] === undefined ? runIntoNew(options, { outputs, run }) : run(options),
  );
  return Object.assign(operation, { outputNames }) as unknown as ReturningOperation<Options, Names, Choices>;
}

function runIntoNew<Options extends object, Names extends keyof Options & string, Choices>(
  options: Options & { readonly accumulate?: boolean },
  operation: { readonly outputs: Outputs<Options, Names, Choices>; readonly run: (options: Options) => void },
): unknown {
  const { outputs, run } = operation;
  const names = Object.keys(outputs) as Names[];
  const made: Partial<Record<Names, Tensor>> = {};
  // if only some outputs are given or inputs are invalid, `run` rejects the call and states the reason
  if (options.accumulate || names.some((each) => options[each] !== undefined)) return run(options);
  const declared = declaredOutputs(options, outputs);
  if (declared === undefined) return run(options);
  try {
    for (const each of names) made[each] = Tensor.empty(declared[each]);
    run({ ...options, ...made });
  } catch (error) {
    for (const each of names) made[each]?.dispose();
    throw error;
  }
  return names.length === 1 ? made[names[0]!] : made;
}

/** Describes the outputs of a call. Returns undefined if the inputs are not valid for the operation. */
function declaredOutputs<Options extends object, Names extends keyof Options & string, Choices>(
  options: Options,
  outputs: Outputs<Options, Names, Choices>,
): Record<Names, Required<TensorOptions>> | undefined {
  const declare = ([name, output]: [string, (inputs: never) => Required<TensorOptions>]) => [
    name,
    output(options as never),
  ];
  try {
    return Object.fromEntries(
      Object.entries<(inputs: never) => Required<TensorOptions>>(outputs).map(declare),
    );
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}
