import { allocateParameters, initializeParameter, type Parameter, type ParameterUnit } from '@mtl/autograd';
import type { Device, DType } from '@mtl/kernels';
import { expect } from 'vitest';
import { PoisoningKeeper } from './poisoning-keeper.js';

/** The part of a stage that its tests call. */
interface TestedStage<Call> {
  readonly parameters: readonly Parameter[];
  readonly units: readonly ParameterUnit[];
  forward(call: Call): unknown;
  backwardInput(options: { readonly microBatch: number; readonly weights: boolean }): unknown;
  backwardWeight(options: { readonly microBatch: number }): void;
  abandon(microBatch: number): void;
  dispose(): void;
}

export interface StageUnderTestOptions<Stage, Batch, Call> {
  readonly stage: Stage;
  readonly device: Device;
  readonly dtype: DType;
  /** Calls of the micro-batches that make up one step, by which the loss is divided. */
  readonly makeCalls: (batches: readonly Batch[]) => readonly Call[];
  /** Returns the loss of a micro-batch; the gradients are of this loss. */
  readonly takeLoss: (stage: Stage, microBatch: number) => number;
}

/** A loss and the gradients of all parameters. */
export interface LossAndGradients {
  readonly loss: number;
  readonly gradients: number[][];
}

/** A stage with its own parameters and gradients, initialised from the seed 5. */
export class StageUnderTest<Stage extends TestedStage<Call>, Batch, Call> {
  readonly stage: Stage;
  readonly #options: StageUnderTestOptions<Stage, Batch, Call>;
  readonly #storage: { dispose(): void };

  constructor(options: StageUnderTestOptions<Stage, Batch, Call>) {
    const { stage, device, dtype } = options;
    this.stage = stage;
    this.#options = options;
    this.#storage = allocateParameters(stage.parameters, { device, dtype, mainGradients: true });
    for (const parameter of stage.parameters) initializeParameter(parameter, parameter.data, 5);
  }

  /**
   * Returns loss and gradients after forward and backward of micro-batches. With `split`, the two halves of
   * backward run one after the other.
   */
  computeGradients(batches: readonly Batch[], split = false): LossAndGradients {
    const { stage } = this;
    for (const parameter of stage.parameters) parameter.mainGradient.zero();
    let loss = 0;
    this.#options.makeCalls(batches).forEach((call, microBatch) => {
      stage.forward(call);
      stage.backwardInput({ microBatch, weights: !split });
      if (split) stage.backwardWeight({ microBatch });
      loss += this.#options.takeLoss(stage, microBatch);
    });
    return { loss, gradients: stage.parameters.map(({ mainGradient }) => mainGradient.toArray()) };
  }

  /** Compares three elements of every parameter's gradient with central differences; for float64. */
  expectCentralDifferences(batch: Batch): void {
    const { gradients } = this.computeGradients([batch]);
    const step = 1e-5;
    for (const [index, parameter] of this.stage.parameters.entries()) {
      const values = parameter.data.toArray();
      for (const element of [0, Math.floor(parameter.size / 2), parameter.size - 1]) {
        const moved = [step, -step].map((delta) => {
          const changed = Float64Array.from(values);
          changed[element]! += delta;
          parameter.data.write(changed);
          return this.#computeLoss(batch);
        });
        parameter.data.write(Float64Array.from(values));
        const numerical = (moved[0]! - moved[1]!) / (2 * step);
        // weights of losses are float32 on the device: 1/count carries 6e-8; differences of step 1e-5 add
        // 1e-8
        expect(Math.abs(gradients[index]![element]! - numerical), parameter.name).toBeLessThan(1e-7);
      }
    }
  }

  /** Returns the loss of a micro-batch, dropout included; the input half of backward makes losses. */
  #computeLoss(batch: Batch): number {
    const { stage } = this;
    const [call] = this.#options.makeCalls([batch]);
    stage.forward(call!);
    stage.backwardInput({ microBatch: 0, weights: false });
    const loss = this.#options.takeLoss(stage, 0);
    stage.abandon(0);
    return loss;
  }

  /**
   * Checks that results have the same bits if parameters have values only while a unit is used. Also checks
   * that reading parameters outside of units fails.
   */
  expectUnitsSuffice(batches: readonly Batch[]): void {
    const { stage } = this;
    const expected = [false, true].map((split) => this.computeGradients(batches, split));
    const keeper = new PoisoningKeeper(stage.parameters, stage.units);
    expect([false, true].map((split) => this.computeGradients(batches, split))).toEqual(expected);
    // forward and backward of both, and again for the weight half
    expect(keeper.numAcquired).toBeGreaterThanOrEqual(5 * stage.parameters.length);
    for (const parameter of stage.parameters)
      expect(() => parameter.data).toThrow('is read outside of its units');
  }

  dispose(): void {
    this.#storage.dispose();
    this.stage.dispose();
  }
}

/** Checks that each array is within `relative` times the norm of the expected one. */
export function expectClose(actual: number[][], expected: number[][], relative: number): void {
  actual.forEach((values, index) => {
    const norm = Math.hypot(...expected[index]!);
    const difference = Math.hypot(...values.map((value, at) => value - expected[index]![at]!));
    expect(difference, `parameter ${index}`).toBeLessThanOrEqual(relative * norm + 1e-12);
  });
}
