import { type Parameter, Tape, type Variable } from '@mtl/autograd';
import { UsageError } from '@mtl/errors';
import type { MaskedTokenBatch } from '@mtl/layout';
import type { StageLoss } from '@mtl/pipeline';
import type { Positions } from '../blocks/layer-sharding.js';
import { numOwners } from '../blocks/sequence-partition.js';
import { asStageLoss } from '../blocks/stage-losses.js';
import type { StageCall, ToDevice } from '../stages/stage-call.js';
import { vocabularyLogits } from '../stages/vocabulary.js';
import { BertEncoderStage, type BertStageOptions } from './bert-encoder-stage.js';
import { MaskedLanguageHead, SentenceOrderHead } from './bert-heads.js';
import {
  type DeviceMaskedBatch,
  type MaskedStageBatch,
  maskedBatchToDevice,
} from './masked-batch-to-device.js';
import type { PaddedSize } from './sample-packing.js';

/** The predictions of a BERT for a batch, in host memory. */
export interface BertPrediction {
  /** float32 [M, vocabularySize]: for each masked position, the logits of its token. */
  readonly maskedLogits: Float32Array;
  /**
   * float32 [B, 2]: logits for the order of the two texts. Undefined if the model has no sentence-order head.
   */
  readonly sentenceOrderLogits: Float32Array | undefined;
}

/**
 * BERT for pretraining as a pipeline stage: the encoder, a masked-language head and a sentence-order head
 * (see Devlin et al. 2018; Shoeybi et al. 2019, section 5.4). The heads receive only the hidden states of
 * masked tokens and of each row's first token.
 */
export class BertStage extends BertEncoderStage<MaskedStageBatch, DeviceMaskedBatch> {
  readonly parameters: readonly Parameter[];
  readonly maskedHead: MaskedLanguageHead | undefined;
  readonly sentenceOrderHead: SentenceOrderHead | undefined;

  /** @throws ConfigurationError as `BertEncoderStage` does */
  constructor(options: BertStageOptions) {
    const { model } = options;
    // the decoder in the last stage shares its weight with the embedding
    super(options, { isTied: true });
    const { isFirst, isLast, factory } = this;
    this.maskedHead = isLast
      ? new MaskedLanguageHead({ model, factory, norm: this.blockOfLayer(model.numLayers - 1).norm })
      : undefined;
    this.sentenceOrderHead =
      isLast && model.sentenceOrderHead ? new SentenceOrderHead({ model, factory }) : undefined;
    this.parameters = [
      ...this.bodyParameters,
      ...(this.maskedHead?.parameters ?? []),
      ...(isFirst || this.wordEmbedding === undefined ? [] : [this.wordEmbedding]),
      ...(this.sentenceOrderHead?.parameters ?? []),
    ];
  }

  /**
   * Returns the predictions of a complete model for `batch`, computed without dropout. The batch's labels and
   * weights are ignored.
   *
   * @throws UsageError MTL_STAGE if this stage does not hold all layers and all rows
   */
  predict(batch: MaskedTokenBatch): BertPrediction {
    if (!this.isFirst || !this.isLast || numOwners(this.sequence) > 1) {
      throw new UsageError('MTL_STAGE', 'predictions need a stage that holds all layers', {
        expected: `layers 0 to ${this.model.numLayers} and all rows, not ${this.layers.start} to ${this.layers.end}`,
      });
    }
    const tape = new Tape({ recording: false });
    const { vocabularySize, hiddenSize } = this.model;
    const { sharding } = this.factory;
    const positions = { start: 0, end: this.activationRows(batch)[0], sharding };
    const onDevice = maskedBatchToDevice(
      { ...batch, sentenceOrderLabels: undefined },
      {
        ...this.sequencesOptions({ batch, reads: this.rowReads({ training: false }) }, positions),
        isLast: true,
        lossFactors: { lm_loss: 1 },
      },
    );
    const call = { batch: onDevice, positions, training: false };
    const outputs = tape.scope(() => {
      const embedded = this.withinEmbedding(tape, () => this.embed(tape, call));
      const hidden = this.applyBlocks(tape, embedded, call);
      return this.withinHead(tape, () => {
        const masked = this.maskedHead!.transform(
          tape,
          this.rows(tape, hidden, onDevice.targets!.maskedPositions, call),
        );
        const first = this.rows(tape, hidden, onDevice.firstPositions, call);
        return [masked, this.sentenceOrderHead?.logits(tape, first) ?? first];
      });
    });
    const [masked, order] = outputs as [Variable, Variable];
    using input = masked.tensor.reshape([masked.tensor.size / hiddenSize, hiddenSize]);
    const maskedLogits = this.withinHead(tape, () =>
      vocabularyLogits({
        input,
        weight: this.wordEmbedding!,
        bias: this.maskedHead!.outputBias,
        vocabularySize,
        sharding,
      }),
    );
    const prediction = {
      maskedLogits,
      sentenceOrderLogits:
        this.sentenceOrderHead === undefined ? undefined : Float32Array.from(order.tensor.toArray()),
    };
    for (const variable of outputs) variable.release();
    onDevice.release();
    return prediction;
  }

  protected toDevice(call: ToDevice<MaskedStageBatch>, positions: Positions): DeviceMaskedBatch {
    const { batch, lossFactors } = call;
    const { isLast } = this;
    const options = { ...this.sequencesOptions(call, positions), isLast, lossFactors };
    if (!isLast || !this.model.sentenceOrderHead) {
      return maskedBatchToDevice({ ...batch, sentenceOrderLabels: undefined }, options);
    }
    if (batch.sentenceOrderLabels === undefined) {
      throw new UsageError('MTL_STAGE', 'the batch has no sentenceOrderLabels, the model has their head', {
        remedy: 'build the model without sentenceOrderHead, or take batches of pairs',
      });
    }
    return maskedBatchToDevice(batch, options);
  }

  protected measureSize(batch: MaskedStageBatch): PaddedSize {
    return batch;
  }

  protected computeLosses(
    tape: Tape,
    hidden: Variable,
    call: StageCall<DeviceMaskedBatch>,
  ): readonly Variable[] {
    const { batch } = call;
    const targets = batch.targets!;
    const masked = this.maskedHead!.computeLosses(tape, {
      hidden: this.rows(tape, hidden, targets.maskedPositions, call),
      wordEmbedding: this.wordEmbedding!,
      labels: targets.maskedLabels,
      weights: targets.maskedWeights,
    });
    if (this.sentenceOrderHead === undefined) return [masked];
    const order = this.sentenceOrderHead.computeLosses(tape, {
      hidden: this.rows(tape, hidden, batch.firstPositions, call),
      labels: targets.sentenceOrderLabels!,
      weights: targets.sentenceOrderWeights!,
    });
    return [masked, order];
  }

  protected namedLosses(
    [masked, order]: readonly Variable[],
    { targets }: DeviceMaskedBatch,
  ): readonly StageLoss[] {
    const losses = [asStageLoss({ name: 'lm_loss', losses: masked!, weights: targets!.maskedWeights })];
    if (order === undefined) return losses;
    return [
      ...losses,
      asStageLoss({ name: 'sop_loss', losses: order, weights: targets!.sentenceOrderWeights! }),
    ];
  }
}
