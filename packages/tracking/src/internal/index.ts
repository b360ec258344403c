export { deliveryText } from '../services/delivery.js';
export { type TrackingCredentials, trackingCredentials } from '../services/open-deliveries.js';
