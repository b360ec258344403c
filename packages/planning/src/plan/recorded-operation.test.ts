import type { KernelOperation, MatmulOperation } from '@mtl/cost-model';
import {
  biasDropoutResidualForward,
  type Device,
  linearResidualForward,
  matmul,
  numLiveTensors,
  observeOperations,
  Tensor,
  tidy,
} from '@mtl/kernels';
import { afterEach, describe, expect, it } from 'vitest';
import { recordedOperation } from './recorded-operation.js';

afterEach(() => expect(numLiveTensors()).toBe(0));

type Recorded = ReturnType<typeof recordedOperation>;
const [sequence, batch, inputs, outputs] = [5, 2, 24, 16];
const biasBytes = 2 * outputs;

function recordOperations(
  device: Device,
  body: (operands: ReturnType<typeof operandsOn>) => void,
): Recorded[] {
  const recorded: Recorded[] = [];
  tidy(() => {
    const operands = operandsOn(device);
    observeOperations(
      (name, named, { flops }) => {
        recorded.push(recordedOperation({ name, operands: named }, flops));
      },
      () => body(operands),
    );
  });
  return recorded;
}

function operandsOn(device: Device) {
  const tensor = (...shape: number[]): Tensor => Tensor.empty({ shape, dtype: 'bfloat16', device });
  return {
    output: tensor(sequence, batch, outputs),
    residual: tensor(sequence, batch, outputs),
    input: tensor(sequence, batch, inputs),
    weight: tensor(outputs, inputs),
    bias: tensor(outputs),
  };
}

describe('a linear layer with a residual', () => {
  const makeMatmul = (resultBytes: number): MatmulOperation => ({
    kind: 'matmul',
    name: 'linear_residual_forward',
    dtype: 'bf16',
    time: 'matmuls',
    batch: 1,
    rows: sequence * batch,
    columns: outputs,
    depth: inputs,
    resultBytes,
  });

  it('is a matmul that reads the residual and writes the result on a GPU', () => {
    expect(recordOperations('meta-cuda', linearResidualForward)).toEqual([makeMatmul(2 * 2)]);
  });

  it('has on a CPU the FLOPs and bytes of a matmul and a sum after it', () => {
    const parts = recordOperations('meta', ({ output, residual, input: left, weight, bias }) => {
      matmul({ output, left, right: weight, transposeRight: true });
      biasDropoutResidualForward({ output, input: output, bias, residual });
    }) as [MatmulOperation, KernelOperation];
    const elements = sequence * batch * outputs;
    const [product, sum] = parts;
    const resultBytes = product.resultBytes + (sum.bytes - biasBytes) / elements;
    expect(recordOperations('meta', linearResidualForward)).toEqual([
      { ...product, name: 'linear_residual_forward', resultBytes },
    ]);
    expect(resultBytes).toBe(makeMatmul(4 * 2).resultBytes);
  });
});
