import { scale, sumOfSquares, Tensor } from '@mtl/kernels';
import { listOwnedParts } from '@mtl/optimizer';

/**
 * Injects the given fault into a training run. Each fault is a mistake that programmers could make. For fault
 * injection only.
 */
export function faultyTraining(training, fault) {
  const isSecond = training.processes.groups.world?.rank === 1;
  if (fault === 'shift-samples' && isSecond) shiftSamples(training);
  if (fault === 'shift-one-mask' && isSecond) shiftOneMask(training);
  if (fault === 'use-stale-input' && isSecond) useStaleInput(training);
  if (fault === 'drop-scattered-sums') dropScatteredSums(training);
  if (fault === 'keep-stale-values') keepStaleValues(training);
  if (fault === 'keep-last-micro-batch') keepLastMicroBatch(training);
  if (fault === 'reduce-tied-weight-twice') reduceTiedWeightTwice(training);
  if (fault === 'count-tied-weight-twice') countTiedWeightTwice(training);
  if (fault === 'count-instances') countInstances(training);
  if (fault === 'drop-expert-counts' && isSecond) dropExpertCounts(training);
  if (fault === 'move-biases-twice') moveBiasesTwice(training);
  if (fault === 'average-expert-gradients') averageExpertGradients(training);
  if (fault === 'skip-shared-gate-sum') skipSharedGateSum(training);
  if (fault === 'shift-labels-of-chunks') shiftLabelsOfChunks(training);
  if (fault === 'count-tokens-of-copies') countTokensOfCopies(training);
  if (fault === 'drop-by-local-position') dropByLocalPosition(training);
  if (fault === 'count-layers-of-stages' && isSecond) countLayersOfStages(training);
  if (fault === 'drop-sink-gradients' && isSecond) dropSinkGradients(training);
  if (fault === 'leave-scores-uncapped' && isSecond) leaveScoresUncapped(training);
  if (fault === 'forget-highest-scores' && isSecond) forgetHighestScores(training);
}

/** Shifts the global indices of this rank's samples. These indices determine all dropout masks. */
function shiftSamples({ part }) {
  const [stage] = part.stages.values();
  const forward = stage.forward.bind(stage);
  stage.forward = (call) => {
    const sampleNumbers = call.batch.sampleNumbers.map((number) => number + 1);
    return forward({ ...call, batch: { ...call.batch, sampleNumbers } });
  };
}

/** Leaves the other ranks' gradients out of each rank's gradient slices. */
function dropScatteredSums({ optimizer }) {
  for (const { group } of optimizer.stores) group.reduceScatter = () => ({ wait: () => {}, isDone: true });
}

/**
 * Keeps the old gathered values after an optimizer step, although the next pass must gather the updated
 * values.
 */
function keepStaleValues({ optimizer }) {
  for (const store of optimizer.stores) store.publish = () => {};
}

/**
 * Keeps only the last micro-batch in the gradient slices, as if each sum replaced the previous content of the
 * slices.
 */
function keepLastMicroBatch({ part, optimizer }) {
  for (const stage of part.stages.values()) {
    const forward = stage.forward.bind(stage);
    stage.forward = (call) => {
      for (const store of optimizer.stores) store.clearGradients();
      return forward(call);
    };
  }
}

/** Makes this rank use a wrong dropout mask in one layer: the mask of a different place in the model. */
function shiftOneMask({ part }) {
  const [stage] = part.stages.values();
  const [, block] = stage.blocks;
  const forward = block.forward.bind(block);
  block.forward = (tape, input, context) =>
    forward(tape, input, {
      ...context,
      hiddenDropout: ({ site, probability }) => {
        const isChosen = site.endsWith('mlp.hidden_dropout');
        return context.hiddenDropout({ site: isChosen ? `another ${site}` : site, probability });
      },
    });
}

/**
 * Shifts labels only after a sequence is sharded. The last label of each chunk is then wrong, because it
 * should be the first token of the next chunk.
 */
function shiftLabelsOfChunks({ part }) {
  for (const stage of part.stages.values()) {
    const forward = stage.forward.bind(stage);
    stage.forward = (call) => {
      const { batch } = call;
      const { batchSize, tokens } = batch;
      if (tokens === undefined) return forward(call);
      const labels = batch.labels.slice();
      const { indices, release } = stage.sequence.ofSequences(batch, { device: stage.device });
      const next = indices.length / 2;
      for (let b = 0; b < batchSize; b++) {
        labels[indices[next - batchSize + b]] = tokens[indices[next + b]];
      }
      release();
      return forward({ ...call, batch: { ...batch, labels } });
    };
  }
}

/** Makes every rank that shares a sequence count all tokens of the sequence. */
function countTokensOfCopies({ trainer }) {
  Object.defineProperty(trainer.ranks, 'isFirstOfSequence', { get: () => true });
}

/**
 * Makes the dropout of hidden states count positions from this rank's first position, instead of the
 * sequence's first position.
 */
function dropByLocalPosition({ part }) {
  for (const stage of part.stages.values()) {
    const { sequence } = stage;
    const toDevice = stage.toDevice.bind(stage);
    stage.toDevice = (call, positions) => {
      const batch = toDevice(call, positions);
      const ofSequences = (...of) => {
        const own = sequence.ofSequences(...of);
        return { ...own, indices: own.indices.map((_, row) => row) };
      };
      stage.sequence = { ...sequence, ofSequences };
      const local = toDevice(call, positions);
      stage.sequence = sequence;
      return { ...batch, rows: local.rows };
    };
  }
}

/**
 * Gives each layer of this stage the attention window of the next layer, as if the stage began one layer
 * later.
 */
function countLayersOfStages({ part }) {
  for (const { blocks } of part.stages.values()) {
    const windows = blocks.map(({ specification }) => specification.attention.windowSize);
    for (const [index, block] of blocks.entries()) {
      const forward = block.forward.bind(block);
      const windowSize = windows[(index + 1) % windows.length];
      block.forward = (tape, input, context) =>
        forward(tape, input, {
          ...context,
          attend: (inner, call) => context.attend(inner, { ...call, windowSize }),
        });
    }
  }
}

/** Computes the attention of one layer of this rank without the soft cap of its scores. */
function leaveScoresUncapped({ part }) {
  const [stage] = part.stages.values();
  const [block] = stage.blocks;
  const forward = block.forward.bind(block);
  block.forward = (tape, input, context) =>
    forward(tape, input, {
      ...context,
      attend: (inner, call) => context.attend(inner, { ...call, softCap: undefined }),
    });
}

/** Leaves the highest scores of this rank's heads out of the maximum over all ranks. */
function forgetHighestScores({ part }) {
  for (const { headScores } of part.stages.values()) {
    for (const scores of headScores) {
      const take = scores.take.bind(scores);
      scores.take = () => take().map(() => Number.NEGATIVE_INFINITY);
    }
  }
}

/** Leaves this rank's contribution out of the gradients of the attention sinks. */
function dropSinkGradients({ optimizer, part }) {
  const sinks = part.parameters.filter(({ name }) => name.endsWith('softmax_offset'));
  afterReduction(
    optimizer,
    () => {},
    () => {
      for (const { mainGradient } of sinks) mainGradient.zero();
    },
  );
}

/** Gives this stage the activations of the previous micro-batch as its input. */
function useStaleInput({ part }) {
  const [stage] = part.stages.values();
  const forward = stage.forward.bind(stage);
  let before;
  stage.forward = (call) => {
    const stale = before ?? call.input;
    // a view keeps the tensor's memory after its owner disposes of the tensor
    before = call.input.view({ shape: call.input.shape });
    const output = forward({ ...call, input: stale });
    if (stale !== call.input) stale.dispose();
    return output;
  };
}

/**
 * Sums the gradient of the tied embedding over data-parallel ranks twice: as the gradient of the embedding,
 * and as the gradient of the head.
 */
function reduceTiedWeightTwice({ optimizer, processes, part }) {
  const head = findHead(part);
  afterReduction(optimizer, () => processes.groups.dp.allReduce(head.mainGradient).wait());
}

/** Counts the tied embedding twice in the gradient norm: as the embedding, and as the head. */
function countTiedWeightTwice({ optimizer, processes, part }) {
  const head = findHead(part);
  if (head === undefined) return;
  // each data-parallel rank adds its share of the replicated gradient, or the slice that this rank has
  // reduced
  const share = findStore(optimizer, head).isDivided ? 1 : 1 / (processes.groups.dp?.size ?? 1);
  addToNorm(processes, () => share * squares(optimizer, head));
}

/**
 * Counts the gradients of all instances in the gradient norm, although only the first instance must be
 * counted.
 */
function countInstances({ optimizer, processes, part }) {
  if (processes.groups.dpInstances.rank === 0) return;
  addToNorm(processes, () =>
    part.parameters.reduce((sum, parameter) => sum + squares(optimizer, parameter), 0),
  );
}

/** Adds the result of `compute` to this rank's sum of squares for the gradient norm. */
function addToNorm({ groups }, compute) {
  groups.world = new Proxy(groups.world, {
    get(target, property) {
      const value = target[property];
      if (property !== 'allReduce') return typeof value === 'function' ? value.bind(target) : value;
      return (tensor, options) => {
        // the only sum of a single float64 over all processes is the sum of squares for the norm
        if (tensor.dtype === 'float64' && tensor.size === 1 && options === undefined) {
          tensor.write(Float64Array.of(tensor.item() + compute()));
        }
        return target.allReduce(tensor, options);
      };
    },
  });
}

const listLoads = ({ stages }) => [...stages.values()].flatMap(({ expertLoads }) => expertLoads);

/** Makes this rank report that its experts received no rows. */
function dropExpertCounts({ part }) {
  for (const load of listLoads(part)) {
    const take = load.take.bind(load);
    load.take = () => take().map(() => 0);
  }
}

/** Doubles the update rate of the expert biases, as if each step updated them twice. */
function moveBiasesTwice({ part }) {
  for (const load of listLoads(part)) load.updateRate *= 2;
}

/**
 * Divides the gradients of experts by the number of processes with different experts, which is a wrong mean.
 */
function averageExpertGradients({ optimizer, processes }) {
  const store = optimizer.stores.find(({ ranges }) => ranges[0].parameter.placement.view === 'expert');
  const { size } = processes.groups.ep;
  afterReduction(optimizer, () => {
    const gradient = store.gradient({ start: 0, end: store.ranges.at(-1).end });
    scale({ output: gradient, input: gradient, factor: 1 / size });
    gradient.dispose();
  });
}

/** Skips the reduction of the shared experts' gate gradient, so that it covers only this rank's rows. */
function skipSharedGateSum({ optimizer, part }) {
  const gates = part.parameters.filter(({ name }) => name.endsWith('gate_weight'));
  let own;
  afterReduction(
    optimizer,
    () => gates.forEach(({ mainGradient }, index) => void mainGradient.write(own[index])),
    () => {
      own = gates.map(({ mainGradient }) => mainGradient.read());
    },
  );
}

/**
 * Calls `before` immediately before each reduction of gradients, and `after` immediately after the reduction.
 */
function afterReduction(optimizer, after, before = () => {}) {
  const reduce = optimizer.reduceGradients.bind(optimizer);
  const launch = optimizer.launchStep.bind(optimizer);
  let isReduced = false;
  optimizer.reduceGradients = () => {
    if (isReduced) return;
    before();
    reduce();
    after();
    isReduced = true;
  };
  optimizer.launchStep = (options) => {
    launch(options);
    isReduced = false;
  };
}

/** Returns the weight of the head, on the last stage. */
function findHead({ stages }) {
  return [...stages.values()].find(({ isLast }) => isLast)?.outputWeight;
}

const findStore = ({ stores }, parameter) =>
  stores.find(({ ranges }) => ranges.some((range) => range.parameter === parameter));

/** Returns the sum of squares of the parameter's gradient slice that this rank has reduced. */
function squares(optimizer, parameter) {
  const output = Tensor.zeros({ shape: [1], dtype: 'float64', device: 'cpu' });
  const store = findStore(optimizer, parameter);
  const range = store.ranges.find((each) => each.parameter === parameter);
  for (const part of listOwnedParts(store, range)) {
    const input = store.gradient(part);
    sumOfSquares({ output, input, accumulate: true });
    input.dispose();
  }
  const sum = output.item();
  output.dispose();
  return sum;
}
