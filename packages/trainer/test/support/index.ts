// Helpers that tests of @mtl/tracking share with those of this package: @mtl/trainer/testing within the
// repository, not published.
export { exampleStep } from './example-step.js';
