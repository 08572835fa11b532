#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "device/backend.h"
#include "device/machine.h"

namespace sluice::sim {
namespace {

constexpr c10::DeviceType kType = c10::kCUDA;
constexpr std::int64_t kCapacity = std::int64_t{16} << 30;

c10::DeviceIndex num_devices() {
  static const std::int64_t number = number_in("SIMULATED_GPUS", kNumDevices);
  return static_cast<c10::DeviceIndex>(number);
}

int index_of(c10::Device device) { return device.has_index() ? device.index() : here.device; }
StreamName name_of(const c10::Stream& stream) { return {stream.device_index(), stream.id()}; }
c10::Stream stream_of(int device, std::int64_t number) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, static_cast<c10::DeviceIndex>(device)),
                     number);
}

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const int device = here.device;
    static const std::int64_t capacity = number_in("SIMULATED_DEVICE_BYTES", kCapacity);
    TORCH_CHECK_WITH(
        OutOfMemoryError,
        Machine::get().bytes(device).first + static_cast<std::int64_t>(bytes) <= capacity,
        "CUDA out of memory. Tried to allocate ", bytes / 1024.0, " KiB. GPU ", device,
        " is full.");
    char* const memory = Machine::get().allocate(device, bytes);
    report(memory, static_cast<std::int64_t>(bytes), device);
    return {memory, new Context{memory, bytes, device}, &drop,
            at::Device(kType, static_cast<c10::DeviceIndex>(device))};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {}
  void recordStream(const c10::DataPtr& memory, c10::Stream stream) override {
    Machine::get().record_stream(memory.get(), name_of(stream));
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const auto [live, peak] = Machine::get().bytes(device);
    c10::CachingDeviceAllocator::DeviceStats stats;
    for (auto* kind : {&stats.allocated_bytes[0], &stats.reserved_bytes[0]}) {
      kind->current = live;
      kind->peak = peak;
    }
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex device) override {
    Machine::get().bytes(device, /*reset_peak=*/true);
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override {
    return {static_cast<std::size_t>(kCapacity - Machine::get().bytes(device).first),
            static_cast<std::size_t>(kCapacity)};
  }

 private:
  struct Context {
    char* memory;
    std::size_t bytes;
    int device;
  };
  static void report(void* memory, std::int64_t bytes, int device) {
    c10::reportMemoryUsageToProfiler(memory, bytes, 0, 0,
                                     c10::Device(kType, static_cast<c10::DeviceIndex>(device)));
  }
  static void drop(void* context) {
    const std::unique_ptr<Context> dropped(static_cast<Context*>(context));
    report(dropped->memory, -static_cast<std::int64_t>(dropped->bytes), dropped->device);
    Machine::get().free(dropped->memory);
  }
};

class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    constexpr std::size_t kAlignment = 64;
    void* const memory =
        std::aligned_alloc(kAlignment, (bytes + 2 * kAlignment - 1) / kAlignment * kAlignment);
    Machine::get().add_pinned(memory, bytes);
    return {memory, memory, &drop, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &drop; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  bool record_event(void* /*memory*/, void* /*context*/, c10::Stream /*stream*/) override {
    return true;
  }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

 private:
  static void drop(void* memory) {
    Machine::get().free_pinned(memory);
    std::free(memory);
  }
};

struct Event {
  Clock clock;
  bool was_asked = false;
  bool is_over = false;  // a query returned true
};

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override {
    return {kType, static_cast<c10::DeviceIndex>(here.device)};
  }
  void setDevice(c10::Device device) const override { here.device = index_of(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    here.device = index_of(device);
  }
  c10::Stream getStream(c10::Device device) const override {
    return stream_of(index_of(device), current_stream(index_of(device)).second);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return stream_of(index_of(device), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high_priority*/) const override {
    const auto lock = Machine::get().lock();
    return stream_of(index_of(device), Machine::get().new_stream());
  }
  c10::Stream getNewStream(c10::Device device, int /*priority*/) const override {
    return getStreamFromGlobalPool(device, false);
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return handle_of(name_of(stream));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    here.streams[static_cast<std::size_t>(stream.device_index())] = stream.id();
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return num_devices(); }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex /*device*/,
              c10::EventFlag /*flag*/) const override {
    Machine& machine = Machine::get();
    const auto lock = machine.lock();
    machine.launch(name_of(stream));
    if (!*event) *event = new Event;
    *static_cast<Event*>(*event) = {machine.clock_of(name_of(stream))};
  }
  void destroyEvent(void* event, c10::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<Event*>(event);
  }
  void block(void* event, const c10::Stream& stream) const override {
    Machine& machine = Machine::get();
    const auto lock = machine.lock();
    if (event && !machine.skips(Call::kWait))
      machine.wait(name_of(stream), static_cast<Event*>(event)->clock);
  }
  // The first query returns false, as a GPU may.
  bool queryEvent(void* event) const override {
    if (!event) return true;
    Machine& machine = Machine::get();
    const auto lock = machine.lock();
    Event& asked = *static_cast<Event*>(event);
    if (!std::exchange(asked.was_asked, true) || !machine.has_happened(asked.clock)) return false;
    machine.carry_out(asked.clock);
    asked.is_over = true;
    return true;
  }
  void synchronizeEvent(void* event) const override {
    Machine& machine = Machine::get();
    const auto lock = machine.lock();
    if (!event) return;
    const Event& awaited = *static_cast<Event*>(event);
    if (awaited.is_over)
      machine.all_know(awaited.clock);
    else if (!machine.skips(Call::kSynchronize))
      machine.host_waits(awaited.clock);
  }
  bool queryStream(const c10::Stream& stream) const override {
    synchronizeStream(stream);
    return true;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    const auto lock = Machine::get().lock();
    Machine::get().host_waits(Machine::get().clock_of(name_of(stream)));
  }
  void synchronizeDevice(c10::DeviceIndex device) const override {
    const auto lock = Machine::get().lock();
    Machine::get().host_waits(Machine::get().clock_of_device(device));
  }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override {
    Machine::get().record_stream(memory.get(), name_of(stream));
  }
};

class Hooks final : public at::CUDAHooksInterface {
 public:
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return true; }
  int getNumGPUs() const override { return num_devices(); }
  c10::DeviceIndex deviceCount() const override { return num_devices(); }
  c10::DeviceIndex current_device() const override { return getCurrentDevice(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { here.device = device; }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(here.device);
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return static_cast<c10::DeviceIndex>(std::exchange(here.device, device));
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchangeDevice(device);
  }
  void deviceSynchronize(c10::DeviceIndex device) const override {
    Guard().synchronizeDevice(device);
  }
  c10::Allocator* getCUDADeviceAllocator() const override { return &device_allocator(); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return at::getHostAllocator(kType); }
  bool isPinnedPtr(const void* memory) const override { return Machine::get().is_pinned(memory); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex /*device*/) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex /*device*/) const override {
    return at::detail::createCPUGenerator();
  }
  at::Device getDeviceFromPtr(void* /*memory*/) const override { return Guard().getDevice(); }
};

// If the variable SIMULATED_DEVICE_REPORT names a file, appends what the devices counted when the
// process ends. Tests read it after a run of `sluice`, which does not know the simulation.
void report() {
  const char* const path = std::getenv("SIMULATED_DEVICE_REPORT");
  if (!path) return;
  std::ofstream file(path, std::ios::app);
  file << "operators " << counts().operators << "\n";
  for (const std::int64_t waits : counts().host_waits) file << "host waits " << waits << "\n";
  for (const std::string& race : take_races()) file << "race: " << race << "\n";
}

// Does nothing if LibTorch has real CUDA.
const bool registered = [] {
  if (c10::impl::hasDeviceGuardImpl(kType)) return false;
  static PinnedAllocator pinned;
  c10::SetAllocator(kType, &device_allocator(), 0);
  at::setHostAllocator(kType, &pinned, 0);
  static const c10::impl::DeviceGuardImplRegistrar guard(kType, new Guard);
  static at::RegistererCUDAHooksRegistry hooks(
      "CUDAHooks", at::CUDAHooksRegistry(),
      [](at::CUDAHooksArgs) -> std::unique_ptr<at::CUDAHooksInterface> {
        return std::make_unique<Hooks>();
      });
  register_kernels();
  std::atexit(report);
  return true;
}();

}  // namespace

c10::DeviceAllocator& device_allocator() {
  static auto* const allocator = new Allocator;
  return *allocator;
}

bool is_simulated() { return registered; }

}  // namespace sluice::sim
