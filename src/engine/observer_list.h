// Several observers as one. Owns: the order. Does not own: the observers.
// Thread-safety: one rank's thread.
#pragma once

#include <utility>
#include <vector>

#include "sluice/parts/observers.h"

namespace sluice {

class ObserverList final : public ExecutorObserver {
 public:
  explicit ObserverList(std::vector<ExecutorObserver*> observers)
      : observers_(std::move(observers)) {}
  void add(ExecutorObserver& last) { observers_.push_back(&last); }

  // The last of the list while it lives.
  class Guest {
   public:
    Guest(ObserverList& list, ExecutorObserver& last) : list_(list) { list_.add(last); }
    ~Guest() { list_.observers_.pop_back(); }
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;

   private:
    ObserverList& list_;
  };

  void begin_program(const Program& program, int rank) override {
    for (ExecutorObserver* observer : observers_) observer->begin_program(program, rank);
  }
  void begin_step(std::int64_t step) override {
    for (ExecutorObserver* observer : observers_) observer->begin_step(step);
  }
  void end_step() override {
    for (ExecutorObserver* observer : observers_) observer->end_step();
  }
  void begin(int index, const Action& action) override {
    for (ExecutorObserver* observer : observers_) observer->begin(index, action);
  }
  void end(int index, const Action& action) override {
    for (ExecutorObserver* observer : observers_) observer->end(index, action);
  }
  void failed(int index, const Action& action) noexcept override {
    for (ExecutorObserver* observer : observers_) observer->failed(index, action);
  }
  void waiting(const Action& action) override {
    for (ExecutorObserver* observer : observers_) observer->waiting(action);
  }
  void arrived(const Action& action, const std::vector<at::Tensor>& tensors) override {
    for (ExecutorObserver* observer : observers_) observer->arrived(action, tensors);
  }
  void begin_idle_work(const Action& action) override {
    for (ExecutorObserver* observer : observers_) observer->begin_idle_work(action);
  }
  void end_idle_work(const Action& action) override {
    for (ExecutorObserver* observer : observers_) observer->end_idle_work(action);
  }
  void sending(const Action& action, const std::vector<at::Tensor>& tensors) override {
    for (ExecutorObserver* observer : observers_) observer->sending(action, tensors);
  }
  void produced(const Action& action, const Values& outputs,
                std::vector<at::Tensor>& handed_on) override {
    for (ExecutorObserver* observer : observers_) observer->produced(action, outputs, handed_on);
  }

 private:
  std::vector<ExecutorObserver*> observers_;
};

}  // namespace sluice
