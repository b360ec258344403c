import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { findCheckpoint, type LogicalTensor } from '@mtl/checkpoint';
import { checkHuggingFaceArchitecture } from '@mtl/configuration/saved';
import { CheckpointError, ConfigurationError } from '@mtl/errors';
import { writeFileAtomically } from '@mtl/errors/files';
import { writeHuggingFaceBertForTask } from '@mtl/formats';
import { huggingFaceTaskClass } from '@mtl/formats/internal';
import type { BertModelConfiguration } from '@mtl/models';
import {
  bertTokenizerSettings,
  checkHuggingFaceTarget,
  checkSaveForHuggingFace,
  exportedTokenizerFiles,
  exportedTokenizerNotice,
  savedWeights,
} from '@mtl/runs/lifecycle';
import type { FineTuningConfiguration } from '../flags/fine-tuning-configuration.js';
import { seedDirectory } from './fine-tuning-results.js';
import type { BertStart } from './open-bert-start.js';
import { fineTuningTasks } from './tasks.js';

export interface HuggingFaceExportsOptions {
  readonly configuration: FineTuningConfiguration;
  readonly seeds: readonly number[];
  readonly model: BertModelConfiguration;
  readonly start: Pick<BertStart, 'tokenizer'>;
  readonly onMessage: (text: string) => void;
}

/**
 * Writes fine-tuned models in the format of the transformers library, for --save-hf. Only the first rank uses
 * this class.
 */
export class HuggingFaceExports {
  readonly #options: HuggingFaceExportsOptions;

  constructor(options: HuggingFaceExportsOptions) {
    this.#options = options;
  }

  /**
   * Checks, before the run, that all models can be written at its end.
   *
   * @throws ConfigurationError MTL_HUGGING_FACE_LAYER_NORM, MTL_HUGGING_FACE_ARCHITECTURE,
   *   MTL_HUGGING_FACE_EXISTS, MTL_FLAG_NEEDS
   */
  check({ worldSize }: { readonly worldSize: number }): void {
    const { configuration, seeds, model } = this.#options;
    const { checkpoint } = configuration;
    if (checkpoint.saveHuggingFace === undefined) return;
    checkSaveForHuggingFace(checkpoint, { worldSize });
    checkHuggingFaceArchitecture({ kind: 'bert', model });
    const { task } = configuration;
    if (huggingFaceTaskClass(model, fineTuningTasks[task].bertTask) === undefined) {
      throw new ConfigurationError(
        'MTL_HUGGING_FACE_ARCHITECTURE',
        `--save-hf: a RoFormer of transformers, a BERT with rotary positions, has other layers for ${task}`,
        {
          expected: 'a BERT with learned positions',
          remedy: 'leave --save-hf out, or fine-tune a BERT with --position-embedding-type learned_absolute',
        },
      );
    }
    for (const seed of seeds) {
      if (!this.#isThere(seed)) checkHuggingFaceTarget(this.#chooseDirectory(seed)!);
    }
  }

  /**
   * Writes the weights of a seed, from its last checkpoint if it has one.
   *
   * @param weights returns the weights, in a process that holds the whole model; not called if there are
   *   checkpoints
   */
  async write(seed: number, weights?: () => readonly LogicalTensor[]): Promise<void> {
    const { configuration, model, start, onMessage } = this.#options;
    const directory = this.#chooseDirectory(seed);
    if (directory === undefined) return;
    if (this.#isThere(seed)) {
      onMessage(`seed ${seed}: ${directory} was written before`);
      return;
    }
    const { bertTask: task, labels } = fineTuningTasks[configuration.task];
    const tensors = configuration.checkpoint.save === undefined ? weights?.() : await this.#saved(seed);
    await writeHuggingFaceBertForTask({
      directory,
      task,
      labels,
      model,
      tensors: tensors ?? [],
      ...bertTokenizerSettings(start.tokenizer),
      tokenizerFiles: await exportedTokenizerFiles(start.tokenizer.options, model),
    });
    const { save } = configuration.checkpoint;
    if (save !== undefined) writeFileAtomically(notePath(save, seed), [formatNote(directory)]);
    const notice = await exportedTokenizerNotice(directory, start.tokenizer);
    if (notice !== undefined) onMessage(notice);
    onMessage(`wrote ${directory}`);
  }

  #chooseDirectory(seed: number): string | undefined {
    const { configuration, seeds } = this.#options;
    const { saveHuggingFace } = configuration.checkpoint;
    if (saveHuggingFace === undefined || seeds.length === 1) return saveHuggingFace;
    return seedDirectory(saveHuggingFace, seed);
  }

  /**
   * Returns true if an earlier start of the resumed run has written this model. The existence of the
   * directory does not prove it, because the model there may be from another run.
   */
  #isThere(seed: number): boolean {
    const { save, resume } = this.#options.configuration.checkpoint;
    const directory = this.#chooseDirectory(seed);
    if (!resume || save === undefined || directory === undefined) return false;
    const path = notePath(save, seed);
    if (!existsSync(path) || readFileSync(path, 'utf8') !== formatNote(directory)) return false;
    return existsSync(join(directory, 'config.json'));
  }

  async #saved(seed: number): Promise<LogicalTensor[]> {
    const directory = seedDirectory(this.#options.configuration.checkpoint.save!, seed);
    const found = await findCheckpoint({ directory, onNotice: this.#options.onMessage });
    if (found.kind === 'found') return savedWeights(found.checkpoint);
    throw new CheckpointError('MTL_CHECKPOINT_NONE', `${directory}: no checkpoint found to write`, {
      remedy: `remove ${directory}: the seed is fine-tuned again`,
      exitCode: 2,
    });
  }
}

/** Returns the path of the file in which the first rank records the export of a seed. */
const notePath = (save: string, seed: number): string => join(seedDirectory(save, seed), 'save-hf.txt');

/**
 * Returns the string that records an export to `directory`. The string does not depend on the working
 * directory.
 */
const formatNote = (directory: string): string => `${resolve(directory)}\n`;
