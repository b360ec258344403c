import { checkedOperation, crossEntropyBackward, crossEntropyStatistics, Tensor } from '@mtl/kernels';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';

export interface CrossEntropyOptions {
  /** [N, V], or a shape that can be reshaped to it: the logits of V classes for N rows. */
  readonly logits: Variable;
  /** int32 [N] */
  readonly labels: Variable;
  /** float32 [N]: the factor of each loss in the total loss. */
  readonly weights: Variable;
  /**
   * Rows with this label have no loss and no gradient, whatever their weight. To compute the same mean as
   * PyTorch, give each row without this label the weight 1 / n, where n is the number of such rows.
   */
  readonly ignoreIndex?: number | undefined;
}

/**
 * Computes the losses [N], float32, from logits of a few classes, as in a fine-tuning task. For a vocabulary,
 * use `linearCrossEntropy`, which never has all logits in memory.
 *
 * @throws KernelError `MTL_INDEX` for a label that is not a class, unless its weight is 0 or it is ignored
 */
export const crossEntropy = checkedOperation(
  'crossEntropy',
  (tape: Tape, options: CrossEntropyOptions): Variable => {
    const { logits, labels, weights, ignoreIndex } = options;
    const { dtype, device } = logits.tensor;
    const numRows = labels.tensor.size;
    const matrix = [numRows, logits.tensor.size / numRows] as const;
    const statisticsDtype = dtype === 'float64' ? dtype : 'float32';
    const vector = (): Tensor => Tensor.empty({ shape: [numRows], dtype: statisticsDtype, device });

    const run = (inputs: Record<'logits' | 'labels' | 'weights', Tensor>, gradient?: Tensor): Tensor => {
      const statistics = { rowMaximum: vector(), rowSum: vector(), labelLogit: vector() };
      const loss = vector();
      const views = {
        logits: inputs.logits.reshape(matrix),
        labels: inputs.labels.reshape([numRows]),
      };
      const weightsView = inputs.weights.reshape([numRows]);
      const columns = { numColumns: matrix[1] };
      try {
        crossEntropyStatistics({ ...statistics, ...views, ...columns });
        crossEntropyBackward({
          ...statistics,
          ...views,
          ...columns,
          loss,
          weights: weightsView,
          ignoreIndex,
          logitGradient: gradient,
        });
        return loss;
      } catch (error) {
        loss.dispose();
        throw error;
      } finally {
        for (const tensor of [...Object.values(statistics), ...Object.values(views), weightsView])
          tensor.dispose();
      }
    };

    const tensors = { logits: logits.tensor, labels: labels.tensor, weights: weights.tensor };
    const result = tape.result(run(tensors), { requiresGradient: logits.requiresGradient });
    tape.record(result, () => {
      const saved = { logits: tape.save(logits), labels: tape.save(labels), weights: tape.save(weights) };
      return {
        name: 'crossEntropy',
        inputs: [logits],
        parameters: [],
        saved: Object.values(saved),
        backward: () => {
          const gradient = Tensor.empty({ shape: matrix, dtype, device });
          const { logits, labels, weights } = saved;
          run({ logits: logits.tensor, labels: labels.tensor, weights: weights.tensor }, gradient).dispose();
          const inputGradient = gradient.reshape(logits.tensor.shape);
          gradient.dispose();
          return [inputGradient];
        },
      };
    });
    return result;
  },
);
