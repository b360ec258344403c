// Test helpers that @mtl/tracking shares with this package: @mtl/trainer/testing within the repository, not
// published.
export { exampleStep } from './example-step.js';
