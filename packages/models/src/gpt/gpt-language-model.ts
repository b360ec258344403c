import { type Parameter, SinksOfCall, Tape, type Variable } from '@mtl/autograd';
import { KernelError, MtlError, UsageError } from '@mtl/errors';
import {
  areOperationsObserved,
  attentionCachedForward,
  embeddingForward,
  supportsGraphs,
  Tensor,
  tidy,
} from '@mtl/kernels';
import type { AttendCall, MicroBatchContext } from '../blocks/micro-batch-context.js';
import { HeadGroups } from '../blocks/self-attention.js';
import { valuesOfAllRows } from '../blocks/sequence-partition.js';
import { computeVocabularyLogits, vocabularyLogits } from '../stages/vocabulary.js';
import { GptKeyValueCache } from './gpt-key-value-cache.js';
import type { GptStage } from './gpt-stage.js';
import { RecordedStep, type StepTensors } from './recorded-step.js';
import { type PipelinedGpt, StageChain } from './stage-chain.js';
import { sequenceFirst } from './token-batch.js';

/** New tokens for one of the sequences in a cache. */
export interface SequenceTokens {
  /** The sequence's index in the cache. */
  readonly slot: number;
  readonly tokens: Int32Array;
}

/** A sequence's rows among a call's packed tokens, and how many positions the cache already had. */
interface TokenSpan {
  readonly slot: number;
  readonly start: number;
  readonly end: number;
  readonly position: number;
}

/**
 * A GPT for generation and scoring, which implements `CausalLanguageModel` of @mtl/inference. The new tokens
 * of all sequences are packed one after another. All layers except attention process a single list of tokens,
 * so sequences of different lengths share matmuls without padding. Attention runs for each sequence
 * separately, with the sequence's cache. With tensor or pipeline parallelism, all processes make the same
 * calls and get logits with the same bits: hidden states are sent from stage to stage, and the last stage
 * broadcasts its results.
 */
export class GptLanguageModel {
  readonly vocabularySize: number;
  readonly maximumContext: number;
  readonly #chain: StageChain;
  /** One of this rank's stages, for properties that are equal in all stages. */
  readonly #stage: GptStage;
  /** Each layer's index in the cache, by global layer index. */
  readonly #cacheIndex = new Map<number, number>();

  /**
   * Makes the model usable for generation. Does not take ownership of the parameters, which must have
   * storage.
   *
   * @param model a stage with all layers, or the stages of a pipeline
   */
  constructor(model: GptStage | PipelinedGpt) {
    this.#chain = new StageChain(model);
    this.#stage = this.#chain.stages[0]!;
    for (const { layers } of this.#chain.stages) {
      for (let layer = layers.start; layer < layers.end; layer++) {
        this.#cacheIndex.set(layer, this.#cacheIndex.size);
      }
    }
    this.vocabularySize = this.#stage.model.vocabularySize;
    this.maximumContext = this.#stage.model.maxPositionEmbeddings;
  }

  /** The number of ranks that share every sequence (context parallelism). */
  get #numSharing(): number {
    return this.#stage.sequence.group?.size ?? 1;
  }

  /**
   * Creates an empty cache for `batchSize` sequences of up to `capacity` tokens. The caller must dispose of
   * it.
   */
  newCache({ batchSize, capacity }: { batchSize: number; capacity: number }): GptKeyValueCache {
    const { device, dtype } = this.#stage;
    if (capacity > this.maximumContext) {
      throw new UsageError('MTL_CONTEXT', `a cache of ${capacity} positions`, {
        expected: `at most ${this.maximumContext}, the model's position embeddings`,
      });
    }
    return new GptKeyValueCache({
      batchSize,
      capacity,
      layers: this.#chain.stages.flatMap(({ blocks, factory }) =>
        blocks.map(({ specification: { attention } }) => {
          const { start, end } = new HeadGroups(attention, factory).groups;
          const { headSize, windowSize } = attention;
          return { numGroups: end - start, headSize, windowSize };
        }),
      ),
      device,
      dtype,
    });
  }

  /**
   * Appends tokens to sequences in a cache. Ranks that share sequences in training (context parallelism)
   * instead each process complete sequences here, with the same results.
   *
   * `sequences`: each slot occurs at most once, with at least one token
   *
   * @returns float32 [sequences, vocabularySize]: the logits of each sequence's next token
   * @throws UsageError MTL_CONTEXT if a sequence would exceed the cache's capacity
   */
  forward({
    cache,
    sequences,
  }: {
    cache: GptKeyValueCache;
    sequences: readonly SequenceTokens[];
  }): Float32Array {
    const spans = listSpans(cache, sequences);
    const tokens = packed(sequences, spans);
    const step = this.#recordedStep(cache, spans);
    const logits =
      step === undefined
        ? this.#compute(cache, spans, tokens)
        : step.run({ ...tokens, rows: this.#makeRooms(cache, spans) });
    for (const { slot, position, start, end } of spans) cache.lengths[slot] = position + end - start;
    return logits;
  }

  /** Computes the logits [spans, vocabularySize] after each span's last token. */
  #compute(
    cache: GptKeyValueCache,
    spans: readonly TokenSpan[],
    { tokens, positionIds }: ReturnType<typeof packed>,
  ): Float32Array {
    const tape = new Tape({ recording: false });
    const { device } = this.#stage;
    const ids = (values: Int32Array): Variable =>
      tape.input(Tensor.from(values, { shape: [values.length, 1], dtype: 'int32', device }));
    const inputs = { tokens: ids(tokens), positionIds: ids(positionIds) };
    const context: Pick<MicroBatchContext, 'attend'> = {
      attend: (inner, call) => this.#attend(inner, call, { cache, spans }),
    };
    try {
      const hidden = this.#chain.run({
        shapeBefore: () => [tokens.length, 1, this.#stage.model.hiddenSize],
        pass: (stage, before) => {
          const boundary = before && tape.input(before.view({ shape: before.shape }));
          const { tokens: ids, positionIds } = inputs;
          const from = boundary === undefined ? { tokens: ids } : { hidden: boundary };
          const hidden = stage.hiddenStates(
            tape,
            { ...from, positionIds, numPositions: cache.capacity },
            context,
          );
          const result = hidden.tensor.view({ shape: hidden.tensor.shape });
          hidden.release();
          boundary?.release();
          return result;
        },
      });
      const logits = this.#chain.fromLast(
        hidden && this.#logits(tape, hidden, spans),
        spans.length * this.vocabularySize,
      );
      hidden?.dispose();
      return logits;
    } finally {
      for (const variable of Object.values(inputs)) variable.release();
    }
  }

  /**
   * Returns the loss of every token, without a cache. The loss is the negative log-probability of the label,
   * given the tokens up to and including this position, in nats.
   *
   * `tokens` and `labels`: [batchSize, length], in row-major order; length is at most maximumContext. Ranks
   * that share sequences split them evenly, and first append padding tokens if necessary. The padding does
   * not affect the tokens before it.
   *
   * @returns float32 [batchSize, length]
   */
  tokenLosses(call: { tokens: Int32Array; labels: Int32Array; batchSize: number }): Float32Array {
    const { batchSize } = call;
    const length = call.tokens.length / batchSize;
    // context parallelism needs two chunks of equal length for each rank
    const multiple = this.#numSharing > 1 ? 2 * this.#numSharing : 1;
    const sequenceLength = Math.ceil(length / multiple) * multiple;
    const size = batchSize * sequenceLength;
    const lengthened = (values: Int32Array): Int32Array =>
      Int32Array.from({ length: size }, (_, at) => {
        const [row, position] = [Math.floor(at / sequenceLength), at % sequenceLength];
        return position < length ? values[row * length + position]! : 0;
      });
    const batch = sequenceFirst({
      batchSize,
      sequenceLength,
      tokens: lengthened(call.tokens),
      labels: lengthened(call.labels),
      lossMask: new Float32Array(size).fill(1),
      positionIds: Int32Array.from({ length: size }, (_, at) => Math.min(at % sequenceLength, length - 1)),
      sampleNumbers: new Float64Array(batchSize),
      keyStart: undefined,
    });
    let own: Float32Array | undefined;
    this.#chain.run({
      shapeBefore: (stage) => stage.boundaryShape(batch),
      pass: (stage, input) => {
        const names = ['lm_loss', ...stage.layerLosses];
        const lossFactors = Object.fromEntries(names.map((name) => [name, 1]));
        const result = stage.evaluate({ microBatch: 0, lossFactors, batch, input });
        for (const loss of stage.takeLosses(0)) {
          if (loss.name === 'lm_loss') own = loss.losses.read<'float32'>();
          loss.dispose();
        }
        return result;
      },
    });
    // the tokens are transposed to [S, B], the layout of activations
    const { sequence: partition, device } = this.#stage;
    const { indices, release } = partition.ofSequences(batch, { device });
    const losses = valuesOfAllRows(this.#chain.fromLast(own, size / this.#numSharing), {
      group: partition.group,
      indices,
      device,
    });
    release();
    return Float32Array.from({ length: call.tokens.length }, (_, index) => {
      const sample = Math.floor(index / length);
      return losses[(index % length) * batchSize + sample]!;
    });
  }

  /**
   * Returns the recorded step that computes one token for each of these sequences. Returns undefined if the
   * step must be computed without a graph: the first time for these slots (recording pays off only for steps
   * that repeat), on ranks that share the model or its parameters, and while operations are observed.
   */
  #recordedStep(cache: GptKeyValueCache, spans: readonly TokenSpan[]): RecordedStep | undefined {
    if (!this.#isRecordable || areOperationsObserved()) return undefined;
    if (spans.some(({ start, end }) => end - start > 1)) return undefined;
    const slots = spans.map(({ slot }) => slot).join();
    const { recording } = cache;
    const { parameters } = this.#stage;
    const { numReleases } = this.#stage.positionTables;
    const isSame =
      recording?.slots === slots &&
      recording.model === this &&
      recording.numReleases === numReleases &&
      hasAddresses(parameters, recording.parameters);
    if (!isSame) {
      recording?.step?.dispose();
      const handles = parameters.map(({ data }) => data.handle);
      cache.recording = { slots, model: this, numReleases, parameters: handles };
      return undefined;
    }
    if (recording.step === undefined && !recording.isRefused) {
      const step = this.#record(cache, spans);
      cache.recording = { ...recording, step, isRefused: step === undefined };
    }
    return cache.recording?.step;
  }

  /**
   * True if a complete step is a list of operations of this process, on a device whose graphs need no driver.
   */
  get #isRecordable(): boolean {
    const { device, factory, sequence, units } = this.#stage;
    if (device !== 'cpu' || !supportsGraphs(device) || !this.#chain.isOneStage) return false;
    if (factory.sharding !== undefined || sequence.group !== undefined) return false;
    return !units.some(({ isKept }) => isKept);
  }

  #record(cache: GptKeyValueCache, spans: readonly TokenSpan[]): RecordedStep | undefined {
    const sizes = { numSequences: spans.length, numCaches: this.#cacheIndex.size };
    try {
      return new RecordedStep({ ...sizes, vocabularySize: this.vocabularySize }, (tensors) =>
        this.#computeInto(cache, spans, tensors),
      );
    } catch (error) {
      // either a layer reads values on the host, or memory is short; running the operations one by one needs
      // less memory
      if (MtlError.isInstance(error) && refusals.includes(error.code)) return undefined;
      throw error;
    }
  }

  /** Computes a step with one token per sequence. Inputs and results are in `tensors`. */
  #computeInto(cache: GptKeyValueCache, spans: readonly TokenSpan[], tensors: StepTensors): void {
    const stage = this.#stage;
    const tape = new Tape({ recording: false });
    tidy(() => {
      const ids = (tensor: Tensor): Variable => tape.input(tensor.view({ shape: tensor.shape }));
      const inputs = { tokens: ids(tensors.tokens), positionIds: ids(tensors.positionIds) };
      const hidden = stage.hiddenStates(
        tape,
        { ...inputs, numPositions: cache.capacity },
        {
          attend: (inner, call) => this.#attendInto(inner, call, { cache, spans, rows: tensors.rows }),
        },
      );
      const { outputWeight, outputSoftCap: softCap, model } = stage;
      computeVocabularyLogits({
        input: hidden.tensor.reshape([spans.length, model.hiddenSize]),
        weight: outputWeight!,
        softCap,
        logits: tensors.logits,
      });
    });
  }

  /** Returns the free cache row [layers, sequences] for each layer and sequence. */
  #makeRooms(cache: GptKeyValueCache, spans: readonly TokenSpan[]): Int32Array {
    const rows = new Int32Array(this.#cacheIndex.size * spans.length);
    let index = 0;
    for (let layer = 0; layer < this.#cacheIndex.size; layer++) {
      for (const span of spans) rows[index++] = cache.makeRoom(layer, span);
    }
    return rows;
  }

  /**
   * Computes attention like `#attend`, but with one token per sequence. `rows` contains the tokens' cache
   * rows.
   */
  #attendInto(
    tape: Tape,
    { query, key, value, layer, windowSize, softCap, sinks }: AttendCall,
    {
      cache,
      spans,
      rows,
    }: { readonly cache: GptKeyValueCache; readonly spans: readonly TokenSpan[]; readonly rows: Tensor },
  ): Variable {
    if (sinks !== undefined) {
      throw new KernelError('MTL_CAPTURE', 'attention with sinks cannot be part of a graph');
    }
    const output = emptyOutput(query.tensor, value.tensor);
    const byHead = viewHeads(output, value.tensor);
    const index = this.#cacheIndex.get(layer)!;
    for (const [span, { slot }] of spans.entries()) {
      const row = (tensor: Tensor): Tensor => tensor.rows(span, span + 1);
      attentionCachedForward({
        ...cache.viewCaches(index, slot),
        output: row(byHead),
        query: row(query.tensor),
        key: row(key.tensor),
        value: row(value.tensor),
        position: rows.view({ offset: index * spans.length + span, shape: [1] }),
        windowSize,
        softCap,
      });
    }
    return tape.result(output, { requiresGradient: false });
  }

  /**
   * Computes attention of packed tokens. The result is [N, 1, A * E] for this process's heads, which are
   * given as [N, 1, G, ...].
   */
  #attend(
    tape: Tape,
    { query, key, value, layer, windowSize, softCap, sinks }: AttendCall,
    { cache, spans }: { cache: GptKeyValueCache; spans: readonly TokenSpan[] },
  ): Variable {
    const output = emptyOutput(query.tensor, value.tensor);
    tidy(() => {
      const byHead = viewHeads(output, value.tensor);
      const sinksOfCall = sinks && new SinksOfCall(sinks);
      const index = this.#cacheIndex.get(layer)!;
      for (const { slot, start, end, position } of spans) {
        cache.append(
          index,
          { slot, position, numTokens: end - start },
          ({ start: from, end: to, ...cached }) => {
            const rows = (tensor: Tensor): Tensor => tensor.rows(start + from, start + to);
            const shape = [1, byHead.dim(2), to - from];
            const logSumExp = sinksOfCall && Tensor.empty({ shape, dtype: 'float32', device: output.device });
            attentionCachedForward({
              ...cached,
              output: rows(byHead),
              logSumExp,
              query: rows(query.tensor),
              key: rows(key.tensor),
              value: rows(value.tensor),
              windowSize,
              softCap,
            });
            if (logSumExp !== undefined) sinksOfCall!.addTo({ output: rows(byHead), logSumExp });
          },
        );
      }
    });
    return tape.result(output, { requiresGradient: false });
  }

  /** Computes the logits after each span's last token, without padded vocabulary entries. */
  #logits(tape: Tape, hidden: Tensor, spans: readonly TokenSpan[]): Float32Array {
    const stage = this.#chain.stages.at(-1)!;
    const { model, factory, outputWeight, outputSoftCap: softCap } = stage;
    const { hiddenSize } = model;
    const { dtype, device } = hidden;
    return tidy(() => {
      const last = Tensor.empty({ shape: [spans.length, 1, hiddenSize], dtype, device });
      const ids = Int32Array.from(spans, ({ end }) => end - 1);
      embeddingForward({
        output: last,
        ids: Tensor.from(ids, { shape: [spans.length, 1], dtype: 'int32', device }),
        table: hidden.reshape([hidden.dim(0), hiddenSize]),
      });
      const input = last.reshape([spans.length, hiddenSize]);
      const { vocabularySize } = this;
      const { sharding } = factory;
      return stage.withinHead(tape, () =>
        vocabularyLogits({ input, weight: outputWeight!, softCap, vocabularySize, sharding }),
      );
    });
  }
}

/**
 * Creates the output tensor of attention, [N, 1, A * E], for queries [N, 1, G, R, D] and values [N, 1, G, E].
 */
function emptyOutput(query: Tensor, value: Tensor): Tensor {
  const { dtype, device, shape } = query;
  const [numTokens, , numGroups, headsPerGroup] = shape as [number, number, number, number];
  return Tensor.empty({ shape: [numTokens, 1, numGroups * headsPerGroup * value.dim(-1)], dtype, device });
}

/** Returns a view of attention's output as [N, 1, A, E]. */
const viewHeads = (output: Tensor, value: Tensor): Tensor =>
  output.reshape([output.dim(0), 1, output.dim(-1) / value.dim(-1), value.dim(-1)]);

/** The codes of the errors after which a step is computed without a graph. */
const refusals: readonly string[] = ['MTL_CAPTURE', 'MTL_OUT_OF_MEMORY'];

/** Returns true if the parameters still have the tensors with the given handles. */
const hasAddresses = (parameters: readonly Parameter[], handles: readonly number[]): boolean =>
  parameters.every(({ data }, index) => data.handle === handles[index]);

function listSpans(cache: GptKeyValueCache, sequences: readonly SequenceTokens[]): TokenSpan[] {
  let start = 0;
  return sequences.map(({ slot, tokens }) => {
    const position = cache.lengths[slot];
    if (position === undefined || tokens.length === 0) {
      throw new UsageError('MTL_CONTEXT', `${tokens.length} tokens for slot ${slot}`, {
        expected: `at least one token for a slot below ${cache.batchSize}`,
      });
    }
    if (position + tokens.length > cache.capacity) {
      throw new UsageError(
        'MTL_CONTEXT',
        `${tokens.length} tokens after ${position} do not fit a cache of ${cache.capacity} positions`,
        {
          expected: `at most ${cache.capacity - position} tokens`,
          remedy: 'create the cache with a larger capacity',
        },
      );
    }
    const span = { slot, position, start, end: start + tokens.length };
    start = span.end;
    return span;
  });
}

function packed(sequences: readonly SequenceTokens[], spans: readonly TokenSpan[]) {
  const size = spans.at(-1)?.end ?? 0;
  const tokens = new Int32Array(size);
  const positionIds = new Int32Array(size);
  spans.forEach(({ start, end, position }, index) => {
    tokens.set(sequences[index]!.tokens, start);
    for (let row = start; row < end; row++) positionIds[row] = position + row - start;
  });
  return { tokens, positionIds };
}
