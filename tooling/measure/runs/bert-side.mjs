import { mkdirSync } from 'node:fs';
import { parameterTensors, writeHuggingFaceBert } from '@mtl/formats';
import { operationStatistics } from '@mtl/kernels';
import { BertStage } from '@mtl/models';
import { AdamwOptimizer, createStores } from '@mtl/optimizer';

/**
 * Returns the configuration of bert-base, with layer norms in the same places as in the `transformers`
 * library.
 */
export function bertBase({ sequenceLength, dropout }) {
  return {
    numLayers: 12,
    hiddenSize: 768,
    ffnHiddenSize: 3072,
    numAttentionHeads: 12,
    maxPositionEmbeddings: Math.max(512, sequenceLength),
    vocabularySize: 30522,
    tokenTypeVocabularySize: 2,
    makeVocabularySizeDivisibleBy: 128,
    layerNormEpsilon: 1e-12,
    geluKind: 'erf',
    initMethodStd: 0.02,
    hiddenDropout: dropout,
    attentionDropout: dropout,
    layerNormPlacement: 'post',
    sentenceOrderHead: true,
  };
}

/** A bert-base with its optimizer, for running training steps without a trainer. */
export class BertSide {
  constructor({ dtype, sequenceLength, dropout, recomputation }) {
    const seed = 1234;
    const device = 'cpu';
    this.model = bertBase({ sequenceLength, dropout });
    this.stage = new BertStage({ model: this.model, device, dtype, seed, recomputation });
    const stores = createStores(this.stage.parameters, { device, dtype, seed });
    this.optimizer = new AdamwOptimizer(stores, {
      beta1: 0.9,
      beta2: 0.999,
      epsilon: 1e-6,
      weightDecay: 0.01,
      clipGrad: 1,
    });
  }

  async save(directory) {
    mkdirSync(directory, { recursive: true });
    const tensors = parameterTensors(this.stage.parameters);
    await writeHuggingFaceBert({ directory, model: this.model, tensors });
  }

  /**
   * Runs one step on the micro-batches of a global batch. Returns the elapsed time and the processor time, in
   * seconds.
   */
  step(batches) {
    const [start, before] = [performance.now(), process.cpuUsage()];
    const lossFactors = {
      lm_loss: 1 / batches.reduce((sum, { numMasked }) => sum + numMasked, 0),
      sop_loss: 1 / batches.reduce((sum, { batchSize }) => sum + batchSize, 0),
    };
    let loss = 0;
    batches.forEach((batch, microBatch) => {
      this.stage.forward({ microBatch, batch, lossFactors });
      this.stage.backwardInput({ microBatch, weights: true });
      for (const { losses, weights, dispose } of this.stage.takeLosses(microBatch)) {
        const [values, all] = [losses.toArray(), weights.toArray()];
        values.forEach((value, index) => {
          loss += value * all[index];
        });
        dispose();
      }
    });
    const { gradientNorm: norm } = this.optimizer.step({ learningRate: 1e-4 });
    const { user, system } = process.cpuUsage(before);
    return { loss, norm, wall: (performance.now() - start) / 1000, cpu: (user + system) / 1e6 };
  }

  dispose() {
    this.optimizer.dispose();
  }
}

/**
 * Returns the calls and the seconds of each operation since the statistics `before`, the longest time first.
 */
export function operationSeconds(before = new Map()) {
  const now = new Map(operationStatistics().map(({ name, calls, seconds }) => [name, { calls, seconds }]));
  return [...now]
    .map(([name, { calls, seconds }]) => {
      const earlier = before.get(name) ?? { calls: 0, seconds: 0 };
      return { name, calls: calls - earlier.calls, seconds: seconds - earlier.seconds };
    })
    .filter(({ calls }) => calls > 0)
    .sort((a, b) => b.seconds - a.seconds);
}
