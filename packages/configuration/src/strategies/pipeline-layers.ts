import { ConfigurationError } from '@mtl/errors';
import { type LayerLayout, partitionLayers } from '@mtl/models';
import { count, text } from '../flags/flag-kinds.js';
import type { FlagsOf } from './strategy.js';

export const layerFlags = {
  'pipeline-model-parallel-layout': text(
    'Layers of each chunk: even, balanced (by work, embedding and loss included), or written as in "Ettt|ttt|tL".',
    { placeholder: 'LAYOUT', defaultText: 'even, or balanced where that does not work out' },
  ),
  'decoder-first-pipeline-num-layers': count('Layers of the first stage; the others share the rest evenly.'),
  'decoder-last-pipeline-num-layers': count('Layers of the last stage; the others share the rest evenly.'),
};

export interface LayerLayoutOptions {
  readonly flags: FlagsOf<typeof layerFlags>;
  readonly numLayers: number;
  readonly numStages: number;
  /** Model chunks on all stages. */
  readonly numChunks: number;
  /** Takes messages for the user. */
  readonly notices: string[];
}

/**
 * How layers are split over the chunks of the pipeline: by --pipeline-model-parallel-layout, or by
 * --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers; otherwise evenly where that
 * works out, and balanced by work where it does not.
 *
 * @throws ConfigurationError `MTL_PIPELINE_LAYERS`, `MTL_FLAG_CONFLICT`, `MTL_FLAG_NEEDS`
 */
export function layerLayout(options: LayerLayoutOptions): LayerLayout {
  const { numLayers, numChunks } = options;
  const layout = layoutOf(options);
  // whether it can be split does not depend on the work
  partitionLayers({ numLayers, numChunks, layout, work: { embedding: 0, head: 0 } });
  return layout;
}

function layoutOf(options: LayerLayoutOptions): LayerLayout {
  const { flags, numLayers, numStages, numChunks, notices } = options;
  const layout = flags.get('pipeline-model-parallel-layout');
  const ends = (['decoder-first-pipeline-num-layers', 'decoder-last-pipeline-num-layers'] as const).filter(
    (name) => flags.get(name) !== undefined,
  );
  if (numStages === 1) {
    const given = layout === undefined ? ends : (['pipeline-model-parallel-layout', ...ends] as const);
    for (const name of given) notices.push(`--${name} has no effect with --pipeline-model-parallel-size 1`);
    return 'even';
  }
  if (layout !== undefined && ends[0] !== undefined) {
    flags.conflict({
      flags: ['pipeline-model-parallel-layout', ends[0]],
      why: 'both set how many layers a stage has',
    });
  }
  if (layout === 'even' || layout === 'balanced') return layout;
  if (layout !== undefined) return readLayout(flags.written('pipeline-model-parallel-layout'), layout);
  if (ends[0] !== undefined) {
    if (numChunks !== numStages) {
      flags.needs(ends[0], '--pipeline-model-parallel-layout', 'counts the layers of a stage of one chunk');
    }
    return numbersByEnds(options);
  }
  return numLayers % numChunks === 0 ? 'even' : 'balanced';
}

/** The remaining layers are split evenly over the stages whose number is not given. */
function numbersByEnds({ flags, numLayers, numStages }: LayerLayoutOptions): number[] {
  const first = flags.get('decoder-first-pipeline-num-layers');
  const last = flags.get('decoder-last-pipeline-num-layers');
  const numOthers = numStages - (first === undefined ? 0 : 1) - (last === undefined ? 0 : 1);
  const rest = numLayers - (first ?? 0) - (last ?? 0);
  const isEven = numOthers === 0 ? rest === 0 : rest > 0 && rest % numOthers === 0;
  if (!isEven) {
    const asked = (['decoder-first-pipeline-num-layers', 'decoder-last-pipeline-num-layers'] as const)
      .filter((name) => flags.get(name) !== undefined)
      .map((name) => flags.written(name));
    throw new ConfigurationError(
      'MTL_PIPELINE_LAYERS',
      `${asked.join(' and ')}: ${rest} of ${numLayers} layers are left for ${numOthers} other stages`,
      {
        expected: numOthers === 0 ? `a sum of ${numLayers}` : `a multiple of ${numOthers} to be left`,
        remedy: 'or name every stage with --pipeline-model-parallel-layout',
      },
    );
  }
  const others = new Array<number>(numOthers).fill(rest / numOthers);
  return [...(first === undefined ? [] : [first]), ...others, ...(last === undefined ? [] : [last])];
}

/**
 * Megatron-LM's notation: stages between bars, `t` a layer, `E` the embedding, `L` the loss, `x*N` and
 * `(x)*N` repeated; commas mean nothing. `Ett|(ttt|)*2tL` is 2, 3, 3 and 1 layers.
 */
function readLayout(written: string, layout: string): readonly number[] {
  const refuse = (why: string): never => {
    throw new ConfigurationError('MTL_PIPELINE_LAYERS', `${written}: ${why}`, {
      expected:
        'even, balanced, or stages between bars such as "Ettt|ttt|tL": t a layer, E embedding, L loss',
    });
  };
  let text = layout.replaceAll(',', '').replaceAll(/\s/g, '');
  const repeat = (pattern: RegExp): void => {
    text = text.replaceAll(pattern, (_, part: string, times: string) => {
      const isLong = Number(times) * part.length > 10_000;
      return isLong ? refuse(`${times} times ${part} is too long`) : part.repeat(Number(times));
    });
  };
  repeat(/\(([^()]*)\)\*(\d+)/g);
  repeat(/([EtL|])\*(\d+)/g);
  const unknown = /[^EtL|]/.exec(text)?.[0];
  if (unknown !== undefined) refuse(`${JSON.stringify(unknown)} is no part of a GPT`);
  const stages = text.split('|');
  stages.forEach((stage, index) => {
    const isFirst = index === 0;
    const isLast = index === stages.length - 1;
    if (stage.includes('E') && !(isFirst && stage.lastIndexOf('E') === 0))
      refuse('the first stage begins with the E');
    if (stage.includes('L') && !(isLast && stage.indexOf('L') === stage.length - 1))
      refuse('the last stage ends with the L');
    if (!stage.includes('t')) refuse(`stage ${index + 1} has no layer`);
  });
  return stages.map((stage) => stage.replaceAll(/[EL]/g, '').length);
}
