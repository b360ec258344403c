import { TrainingError } from '@mtl/errors';
import type { TrainingEvent } from '../metrics/training-reports.js';
import type { NameOfTotal } from '../steps/loss-kinds.js';
import type { Ranks } from '../steps/ranks.js';
import type { ComputedStep, RerunRequest, TrainerExtension } from './trainer-extension.js';

export interface StepRerunOptions {
  /** `validate_results` computes suspicious steps again; `report_stats` computes all steps again. */
  readonly mode: 'validate_results' | 'report_stats';
  /** The host names by rank, for reports. */
  readonly hosts: readonly string[];
  /** The name of the total loss in records. Default: `lm_loss`. */
  readonly nameOfTotal?: NameOfTotal | undefined;
}

/** A comparison of two computations. */
interface Comparison {
  readonly isSame: boolean;
  /** The ranks whose own results differ. Empty if only results of collectives differ. */
  readonly ranks: readonly number[];
}

/**
 * Computes steps again to distinguish a hardware fault from a problem in the data. Random numbers come from a
 * counter-based generator, so a step without a fault has the same bits each time. Every rank has its own
 * instance of this class.
 */
export class StepRerun implements TrainerExtension {
  readonly name = 'rerun';
  readonly decides = true;
  readonly #options: StepRerunOptions;

  constructor(options: StepRerunOptions) {
    this.#options = options;
  }

  /**
   * If `mode` requires it, computes the step again until two computations have the same results. Returns
   * these results, to which the gradients in memory belong.
   *
   * @throws TrainingError `MTL_NOT_REPRODUCIBLE` if three computations have three different results
   */
  async repeat<Step extends ComputedStep>(
    request: RerunRequest<Step>,
  ): Promise<{ readonly step: Step; readonly events: readonly TrainingEvent[] }> {
    const { iteration, first, isSuspicious, again, ranks } = request;
    const { mode } = this.#options;
    if (mode === 'validate_results' && !isSuspicious) return { step: first, events: [] };
    const second = await again();
    const compared = compare(first, second, ranks);
    if (compared.isSame) {
      const event: TrainingEvent = {
        type: 'rerun',
        iteration,
        text: `iteration ${iteration} was computed again with the same results: they come from the data and the weights, not from a fault of a machine`,
        fields: { result: 'reproducible', ranks: [] },
      };
      return { step: second, events: isSuspicious ? [event] : [] };
    }
    const third = await again();
    const isLikeOne = [first, second].map((other) => compare(other, third, ranks).isSame).includes(true);
    const where = this.#named(compared.ranks);
    if (!isLikeOne) throw notReproducible(iteration, where);
    return { step: third, events: [this.#transient(request, { second, third, ranks: compared.ranks })] };
  }

  #transient<Step extends ComputedStep>(
    { iteration, first }: RerunRequest<Step>,
    { second, third, ranks }: { second: Step; third: Step; ranks: readonly number[] },
  ): TrainingEvent {
    const { nameOfTotal = 'lm_loss' } = this.#options;
    const wrong = compareOwn(first, third) && first.gradientNorm === third.gradientNorm ? second : first;
    const was = `loss ${wrong.loss}, gradient norm ${wrong.gradientNorm}`;
    const is = `loss ${third.loss}, gradient norm ${third.gradientNorm}`;
    return {
      type: 'rerun',
      iteration,
      text: `iteration ${iteration} was computed again with other results, ${this.#named(ranks)}: a fault of a machine. ${was} became ${is}, which came twice; training goes on with it`,
      fields: {
        result: 'transient',
        ranks,
        hosts: ranks.map((rank) => this.#options.hosts[rank] ?? null),
        [nameOfTotal]: third.loss,
        grad_norm: third.gradientNorm,
        [`wrong_${nameOfTotal}`]: wrong.loss,
        wrong_grad_norm: wrong.gradientNorm,
      },
    };
  }

  #named(ranks: readonly number[]): string {
    if (ranks.length === 0) return 'not of a rank of its own but of what they communicate';
    const names = ranks.map((rank) => `rank ${rank} (host ${this.#options.hosts[rank] ?? 'unknown'})`);
    return `of ${names.join(', ')}`;
  }
}

const compareOwn = (one: ComputedStep, other: ComputedStep): boolean =>
  one.own.length === other.own.length && one.own.every((value, index) => Object.is(value, other.own[index]));

/**
 * Compares the results of two computations bit by bit, on all ranks. The result is the same on every rank.
 */
function compare(one: ComputedStep, other: ComputedStep, ranks: Pick<Ranks, 'ofEveryRank'>): Comparison {
  const isShared = Object.is(one.loss, other.loss) && Object.is(one.gradientNorm, other.gradientNorm);
  const code = (compareOwn(one, other) ? 0 : 2) + (isShared ? 0 : 1);
  const codes = ranks.ofEveryRank(code);
  return {
    isSame: codes.every((each) => each === 0),
    ranks: codes.flatMap((each, rank) => (each >= 2 ? [rank] : [])),
  };
}

function notReproducible(iteration: number, where: string): TrainingError {
  return new TrainingError(
    'MTL_NOT_REPRODUCIBLE',
    `iteration ${iteration} was computed three times with three results, ${where}`,
    {
      expected: 'the same bits each time: samples and random numbers are the same',
      remedy: 'start the run again without these hosts: one has a faulty processor or memory',
      details: { iteration },
    },
  );
}
