import { expect, it } from 'vitest';
import { add, cast, observeOperations, Tensor, tidy } from '../src/index.js';

const tensor = (dtype: 'float32' | 'bfloat16' = 'float32'): Tensor =>
  Tensor.empty({ shape: [4], dtype, device: 'meta' });

it('observeOperations tells of operations in order, and of none after it', () => {
  tidy(() => {
    const [left, right, output, half] = [tensor(), tensor(), tensor(), tensor('bfloat16')];
    const told: [string, unknown][] = [];
    const result = observeOperations(
      (name, operands) => told.push([name, operands.output]),
      () => {
        add({ output, left, right });
        const inner: string[] = [];
        observeOperations(
          (name) => inner.push(name),
          () => add({ output, left, right }),
        );
        expect(inner).toEqual(['add']);
        cast({ output: half, input: output });
        return 'result';
      },
    );
    add({ output, left, right });
    expect(result).toBe('result');
    expect(told).toEqual([
      ['add', output],
      ['cast', half],
    ]);
    const fail = () =>
      observeOperations(
        () => told.push(['never', undefined]),
        () => {
          throw new Error('stop');
        },
      );
    expect(fail).toThrow('stop');
    add({ output, left, right });
    expect(told).toHaveLength(2);
  });
});
