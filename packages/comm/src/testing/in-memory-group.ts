import { CommunicationError, UsageError } from '@mtl/errors';
import {
  bfloat16Bits,
  bfloat16Value,
  bytesPerElement,
  type DType,
  float16Bits,
  float16Value,
  newTypedArray,
  type Tensor,
  type TypedArray,
} from '@mtl/kernels';
import { CallbackWork } from '../awaitable-work.js';
import { CheckedGroup, type CheckedGroupOptions, type CheckedOperation } from '../checked-group.js';
import {
  type CommunicationOperation,
  communicationOperations,
  type OperationCount,
  type ReduceOperation,
  type Work,
} from '../process-group.js';
import type { MessageChannels } from './message-channels.js';

export interface InMemoryGroupOptions extends CheckedGroupOptions {
  readonly channels: MessageChannels;
  /** How long an operation waits for the other members, at most, in milliseconds. */
  readonly timeoutMs: number;
}

type Count = { -readonly [K in keyof OperationCount]: OperationCount[K] };

/**
 * An operation in progress: the values that this member sends, the members that send values to it, and the
 * function that computes the result.
 */
interface Exchange {
  readonly operation: CommunicationOperation;
  readonly description: string;
  readonly sequence: string;
  /** Returns the values to send to a member; undefined if the member receives no values. */
  readonly valuesFor: (member: number) => TypedArray | undefined;
  /** Members that send values to this member. */
  readonly from: readonly number[];
  /** How many elements each member sends, for an all-to-all with unequal parts. */
  readonly received?: readonly number[] | undefined;
  readonly elementBytes: number;
  /**
   * Computes the result from the received values. They are indexed by member and include this rank's own
   * values, if any.
   */
  readonly finish: (values: readonly (ArrayBufferLike | undefined)[]) => void;
}

/**
 * A process group between worker threads, in plain TypeScript. Every member sends its values to every other
 * member, and combines the received values in rank order. Inputs are copied at the start, and results are
 * written only in `wait`, so that tests detect a forgotten `wait`. The group is a reference for native
 * engines, and for tests of code that uses groups. It is not fast.
 */
export class InMemoryGroup extends CheckedGroup {
  readonly engine = 'memory';
  readonly #options: InMemoryGroupOptions;
  readonly #counts: Record<CommunicationOperation, Count>;
  #numCollectives = 0;
  readonly #numSent: number[];
  readonly #numReceived: number[];

  constructor(options: InMemoryGroupOptions) {
    super(options);
    this.#options = options;
    if (this.rank < 0) {
      throw new UsageError('MTL_GROUP', `rank ${options.worldRank} is not in [${options.ranks.join(', ')}]`);
    }
    const count = (): Count => ({ calls: 0, sentBytes: 0, waitedSeconds: 0 });
    this.#counts = Object.fromEntries(
      communicationOperations.map((operation) => [operation, count()]),
    ) as Record<CommunicationOperation, Count>;
    this.#numSent = options.ranks.map(() => 0);
    this.#numReceived = options.ranks.map(() => 0);
  }

  statistics(): Readonly<Record<CommunicationOperation, OperationCount>> {
    return structuredClone(this.#counts);
  }

  close(): void {}

  protected start(call: CheckedOperation): Work {
    const { operation, input, output, reduction, peer, parts } = call;
    const isMessage = operation === 'send' || operation === 'receive';
    const tensor = input ?? output;
    const words = [
      isMessage ? 'message' : operation,
      ...(operation === 'broadcast' ? ['root', peer] : []),
      ...(reduction === undefined ? [] : [reduction]),
      ...(tensor === undefined ? [] : [tensor.dtype, parts === undefined ? tensor.size : 'in unequal parts']),
    ];
    const target = output?.view({ shape: output.shape });
    const members = this.ranks.map((_, member) => member);
    return this.#exchange({
      operation,
      description: words.join(' '),
      sequence: isMessage ? this.#nextMessage(operation, peer!) : `collective ${this.#numCollectives++}`,
      valuesFor: this.#valuesFor(call),
      from: isMessage ? members.filter((member) => operation === 'receive' && member === peer) : members,
      received: parts?.received,
      elementBytes: tensor === undefined ? 0 : bytesPerElement(tensor.dtype),
      finish: (all) => {
        if (target !== undefined) write(target, computeResult(call, all));
      },
    });
  }

  #nextMessage(operation: 'send' | 'receive', peer: number): string {
    const numMessages = operation === 'send' ? this.#numSent : this.#numReceived;
    return `message ${numMessages[peer]!++}`;
  }

  #valuesFor({ operation, input, peer, parts }: CheckedOperation): Exchange['valuesFor'] {
    if (operation === 'barrier') return () => new Uint8Array(0);
    if (input === undefined) return () => undefined;
    const own = input.read();
    if (operation === 'send') return (member) => (member === peer ? own : undefined);
    if (operation === 'broadcast' && peer !== this.rank) return () => newTypedArray(input.dtype, 0);
    if (parts !== undefined) {
      const starts = parts.sent.map((_, member) => sum(parts.sent.slice(0, member)));
      return (member) => own.slice(starts[member]!, starts[member]! + parts.sent[member]!);
    }
    if (operation === 'allToAll' || operation === 'reduceScatter') {
      const partSize = input.size / this.size;
      return (member) => own.slice(member * partSize, (member + 1) * partSize);
    }
    return () => own;
  }

  #exchange(call: Exchange): Work {
    const { operation, description, sequence, valuesFor, from } = call;
    const tag = `${this.name} [${this.ranks.join(',')}] ${sequence}`;
    const count = this.#counts[operation];
    count.calls += 1;
    this.ranks.forEach((worldRank, member) => {
      const values = member === this.rank ? undefined : valuesFor(member);
      if (values === undefined) return;
      count.sentBytes += values.byteLength;
      this.#options.channels.send(worldRank, { tag, description, values: values.slice().buffer });
    });
    const own = valuesFor(this.rank)?.slice().buffer;
    let done = false;
    const wait = (): void => {
      if (done) return;
      const started = performance.now();
      const received = this.ranks.map((_, member) => {
        if (member === this.rank) return own;
        return from.includes(member) ? this.#receive(member, { tag, call }) : undefined;
      });
      call.finish(received);
      count.waitedSeconds += (performance.now() - started) / 1000;
      done = true;
    };
    const channels = this.#options.channels;
    const isReady = (member: number): boolean =>
      member === this.rank || channels.has(this.ranks[member]!, tag);
    return new CallbackWork({ wait, isDone: () => done || from.every(isReady) });
  }

  #receive(member: number, { tag, call }: { tag: string; call: Exchange }): ArrayBufferLike {
    const { channels, timeoutMs } = this.#options;
    const { operation, sequence, description, received, elementBytes } = call;
    const peer = this.ranks[member]!;
    const message = channels.receive(peer, tag, timeoutMs);
    const details = { rank: peer, group: this.name, operation, sequence, waitedMs: timeoutMs };
    const where = `group ${this.name}, ${operation} (${sequence})`;
    if (message === undefined) {
      throw new CommunicationError(
        'MTL_TIMEOUT',
        `${where}: rank ${peer} did not come within ${timeoutMs / 1000} s`,
        { details },
      );
    }
    if (message.description !== description) {
      throw new CommunicationError(
        'MTL_MISMATCH',
        `${where}: this rank called ${description}, rank ${peer} ${message.description}`,
        { details },
      );
    }
    const sent = message.values.byteLength / elementBytes;
    if (received !== undefined && sent !== received[member]) {
      const own = this.ranks[this.rank];
      throw new CommunicationError(
        'MTL_MISMATCH',
        `${where}: rank ${peer} sends ${sent} elements to rank ${own}, which expects ${received[member]}`,
        { details },
      );
    }
    return message.values;
  }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);

/** Computes the output of an operation from the values of all members. */
function computeResult(
  { operation, output, reduction, peer }: CheckedOperation,
  all: readonly (ArrayBufferLike | undefined)[],
): TypedArray {
  if (reduction !== undefined) return combine(all, output!.dtype, reduction);
  const isGathered = operation === 'allGather' || operation === 'allToAll';
  return isGathered ? concatenate(all, output!) : typed(all[peer!]!, output!.dtype);
}

function typed(buffer: ArrayBufferLike, dtype: DType): TypedArray {
  const empty = newTypedArray(dtype, 0);
  return new (empty.constructor as new (buffer: ArrayBufferLike) => TypedArray)(buffer);
}

/**
 * Writes values into `target` and disposes of it. `target` is a view, which keeps the memory alive if the
 * caller has disposed of the original tensor.
 */
function write(target: Tensor, values: TypedArray): void {
  target.write(values);
  target.dispose();
}

function concatenate(all: readonly (ArrayBufferLike | undefined)[], { dtype, size }: Tensor): TypedArray {
  const joined = newTypedArray(dtype, size);
  const bytes = new Uint8Array(joined.buffer);
  let offset = 0;
  for (const part of all) {
    bytes.set(new Uint8Array(part!), offset);
    offset += part!.byteLength;
  }
  return joined;
}

function combine(
  all: readonly (ArrayBufferLike | undefined)[],
  dtype: DType,
  operation: ReduceOperation,
): TypedArray {
  const parts = all.map((part) => typed(part!, dtype));
  const result = parts[0]!.slice();
  if (result instanceof BigInt64Array) {
    const choose = {
      sum: (a: bigint, b: bigint) => a + b,
      max: bigMax,
      min: (a: bigint, b: bigint) => -bigMax(-a, -b),
    };
    for (const part of parts.slice(1) as BigInt64Array[]) {
      for (let index = 0; index < result.length; index++) {
        result[index] = choose[operation](result[index]!, part[index]!);
      }
    }
    return result;
  }
  const { toValue, toBits } = chooseConversion(dtype);
  const choose = { sum: (a: number, b: number) => a + b, max: Math.max, min: Math.min }[operation];
  // sums of integers are exact in float64; storing a sum in the typed array wraps around as in native code
  const isExact = dtype === 'float64' || dtype === 'int32' || dtype === 'uint8';
  const round = isExact ? (value: number): number => value : Math.fround;
  const numbers = parts as Exclude<TypedArray, BigInt64Array>[];
  for (let index = 0; index < result.length; index++) {
    let value = toValue(numbers[0]![index]!);
    for (const part of numbers.slice(1)) value = round(choose(value, toValue(part[index]!)));
    result[index] = toBits(value);
  }
  return result;
}

const bigMax = (a: bigint, b: bigint): bigint => (a > b ? a : b);

function chooseConversion(dtype: DType): { toValue(bits: number): number; toBits(value: number): number } {
  if (dtype === 'bfloat16') return { toValue: bfloat16Value, toBits: bfloat16Bits };
  if (dtype === 'float16') return { toValue: float16Value, toBits: float16Bits };
  return { toValue: (value) => value, toBits: (value) => value };
}
