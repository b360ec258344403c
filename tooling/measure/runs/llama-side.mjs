import {
  isAdapter,
  parameterTensors,
  specifyLora,
  writeHuggingFaceGpt,
  writeLoraDirectory,
} from '@mtl/formats';
import { GptStage, sequenceFirst } from '@mtl/models';
import { Adamw, createStores, ModelOptimizer } from '@mtl/optimizer';

/** A Llama of the size of SmolLM-135M. */
const smolLlama = {
  numLayers: 30,
  hiddenSize: 576,
  ffnHiddenSize: 1536,
  numAttentionHeads: 9,
  groupQueryAttention: true,
  numQueryGroups: 3,
  maxPositionEmbeddings: 2048,
  positionEmbeddingType: 'rope',
  rotaryBase: 10_000,
  normalization: 'RMSNorm',
  swiglu: true,
  addBiasLinear: false,
  vocabularySize: 49_152,
  makeVocabularySizeDivisibleBy: 128,
  tieEmbeddings: true,
  layerNormEpsilon: 1e-5,
  geluKind: 'tanh',
  hiddenDropout: 0,
  attentionDropout: 0,
  initMethodStd: 0.02,
};

/** A small Qwen3-MoE: 32 experts; a token uses 4. */
const qwenMoe = {
  ...smolLlama,
  numLayers: 8,
  hiddenSize: 512,
  ffnHiddenSize: 1024,
  numAttentionHeads: 8,
  numQueryGroups: 4,
  kvChannels: 64,
  qkLayernorm: true,
  vocabularySize: 8192,
  numExperts: 32,
  moeRouterTopk: 4,
  moeFfnHiddenSize: 256,
};

/** `qwenMoe` without experts. Its feed-forward networks take the same FLOPs per token. */
const { numExperts: _, moeRouterTopk: __, moeFfnHiddenSize: ___, ...qwenDense } = qwenMoe;

/** A small Mixtral: 8 experts, whose networks are 3.5 times as wide as the model; a token uses 2. */
const mixtral = {
  ...smolLlama,
  numLayers: 4,
  hiddenSize: 512,
  ffnHiddenSize: 1792,
  numAttentionHeads: 8,
  numQueryGroups: 4,
  vocabularySize: 8192,
  tieEmbeddings: false,
  numExperts: 8,
  moeRouterTopk: 2,
  moeFfnHiddenSize: 1792,
};

export const models = { smollm: smolLlama, 'qwen-moe': qwenMoe, 'qwen-dense': qwenDense, mixtral };

const loraTargets = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'];

/**
 * A Llama with an optimizer for all weights, or only for its adapters. Takes training steps without a
 * trainer.
 */
export class LlamaSide {
  constructor({ dtype, loraRank, model }) {
    this.model = model;
    const [device, seed] = ['cpu', 1234];
    this.lora = loraRank > 0 && {
      rank: loraRank,
      alpha: 2 * loraRank,
      useRslora: false,
      dropout: 0,
      targets: loraTargets,
    };
    const lora = this.lora ? specifyLora(this.lora, model) : undefined;
    this.stage = new GptStage({ model, device, dtype, seed, lora });
    const stores = createStores(this.stage.parameters, { device, dtype, seed });
    this.optimizer = new ModelOptimizer(stores, {
      optimizer: new Adamw({ beta1: 0.9, beta2: 0.95, epsilon: 1e-8 }),
      weightDecay: 0.1,
      clipGrad: 1,
    });
  }

  /**
   * Writes the weights in the format of the `transformers` library, and the adapters in the format of PEFT.
   */
  async save({ base, adapters }) {
    const tensors = parameterTensors(this.stage.parameters);
    await writeHuggingFaceGpt({
      directory: base,
      model: this.model,
      tensors: tensors.filter(({ name }) => !isAdapter(name)),
    });
    if (this.lora) {
      await writeLoraDirectory({
        directory: adapters,
        model: this.model,
        lora: this.lora,
        tensors,
        baseModel: base,
      });
    }
  }

  /**
   * Takes a training step on the micro-batch `batch`. Returns the elapsed seconds and the processor seconds.
   */
  step(batch) {
    const [start, before] = [performance.now(), process.cpuUsage()];
    const factor = 1 / batch.labels.length;
    this.stage.forward({ microBatch: 0, batch, lossFactors: { lm_loss: factor } });
    this.stage.backwardInput({ microBatch: 0, weights: true });
    const [taken] = this.stage.takeLosses(0);
    const loss = factor * taken.losses.toArray().reduce((sum, value) => sum + value, 0);
    taken.dispose();
    const passes = (performance.now() - start) / 1000;
    const { gradientNorm: norm } = this.optimizer.step({ learningRate: 1e-4 });
    const { user, system } = process.cpuUsage(before);
    return { loss, norm, passes, wall: (performance.now() - start) / 1000, cpu: (user + system) / 1e6 };
  }

  dispose() {
    this.optimizer.dispose();
    this.stage.dispose();
  }
}

/**
 * Returns the random tokens [B, S + 1] of step `step`, and the same tokens as a batch for this library's
 * model.
 */
export function randomStep({ step, batchSize, sequenceLength, vocabularySize }) {
  let state = 12_345 + step;
  const next = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state % vocabularySize;
  };
  const rows = Array.from({ length: batchSize }, () => Array.from({ length: sequenceLength + 1 }, next));
  const size = batchSize * sequenceLength;
  const batch = sequenceFirst({
    batchSize,
    sequenceLength,
    tokens: Int32Array.from(rows.flatMap((row) => row.slice(0, -1))),
    labels: Int32Array.from(rows.flatMap((row) => row.slice(1))),
    lossMask: new Float32Array(size).fill(1),
    positionIds: Int32Array.from({ length: size }, (_, index) => index % sequenceLength),
    sampleNumbers: Float64Array.from({ length: batchSize }, (_, index) => index),
    keyStart: undefined,
  });
  return { rows, batch };
}
