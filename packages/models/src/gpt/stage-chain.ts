import type { ProcessGroup, Work } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import { Tensor } from '@mtl/kernels';
import type { GptStage } from './gpt-stage.js';

/** A model whose stages are distributed over a pipeline's ranks. */
export interface PipelinedGpt {
  /** This rank's stages, by chunk index. */
  readonly stages: ReadonlyMap<number, GptStage>;
  /** The rank that has each chunk, in the order of the model. */
  readonly placement: readonly number[];
  readonly group: ProcessGroup;
}

/** Runs a forward pass through all stages of a model, without gradients. Each rank runs its own stages. */
export class StageChain {
  /** This rank's stages, in the order of the model. */
  readonly stages: readonly GptStage[];
  readonly #pipelined: PipelinedGpt | undefined;

  /** @param model a stage that holds all layers, or the stages of a pipeline */
  constructor(model: GptStage | PipelinedGpt) {
    if ('placement' in model) {
      const { stages, placement } = model;
      this.#pipelined = model;
      this.stages = placement.map((_, chunk) => stages.get(chunk)).filter((stage) => stage !== undefined);
    } else if (model.isFirst && model.isLast) this.stages = [model];
    else
      throw new UsageError(
        'MTL_STAGE',
        `a language model of layers ${model.layers.start} to ${model.layers.end} of ${model.model.numLayers}`,
        {
          expected: 'all layers: one stage that holds them, or all stages of a pipeline',
        },
      );
  }

  /** True if this process has the whole model as a single stage. */
  get isOneStage(): boolean {
    return this.#pipelined === undefined;
  }

  /**
   * Runs the stages in the order of the model. All ranks must call this function.
   *
   * @param options.pass receives the previous stage's result, which `run` disposes of (undefined on the first
   *   stage), and returns the input of the next stage
   * @returns the last stage's result, only on the rank that has this stage. The caller must dispose of it
   */
  run(options: {
    readonly shapeBefore: (stage: GptStage) => readonly number[];
    readonly pass: (stage: GptStage, before: Tensor | undefined) => Tensor | undefined;
  }): Tensor | undefined {
    const { shapeBefore, pass } = options;
    if (this.#pipelined === undefined) return pass(this.stages[0]!, undefined);
    const { stages, placement, group } = this.#pipelined;
    const sends: Work[] = [];
    let result: Tensor | undefined;
    placement.forEach((rank, chunk) => {
      const stage = stages.get(chunk);
      if (stage === undefined) return;
      const from = placement[chunk - 1];
      using before = from === undefined || from === rank ? result : received(stage, shapeBefore(stage), from);
      result = pass(stage, before);
      const to = placement[chunk + 1];
      if (result === undefined || to === undefined || to === rank) return;
      sends.push(group.send(result, { to }));
      result.dispose();
      result = undefined;
    });
    for (const work of sends) work.wait();
    return result;

    function received({ dtype, device }: GptStage, shape: readonly number[], from: number): Tensor {
      const tensor = Tensor.empty({ shape, dtype, device });
      group.receive(tensor, { from }).wait();
      return tensor;
    }
  }

  /** Broadcasts `size` float32 values from the last stage's rank, and returns them on all ranks. */
  fromLast(values: Float32Array | undefined, size: number): Float32Array {
    if (this.#pipelined === undefined) return values!;
    const { placement, group } = this.#pipelined;
    const { device } = this.stages[0]!;
    using tensor = Tensor.from(values ?? new Float32Array(size), { shape: [size], dtype: 'float32', device });
    group.broadcast(tensor, { root: placement.at(-1)! }).wait();
    return tensor.read<'float32'>();
  }
}
