// SPDX-License-Identifier: Apache-2.0
// The PyTorch backend: c10d::Backend over motet's C interface. Compiled once per minor version of torch (compiling.py), loaded by
// torch.ops.load_library, and knows of Python nothing but its lock: the operator motet::attach gives a process group its backend.
//
// Operations with asyncOp = false run on the caller's thread. The others run on a stream of their own, taken from a pool, so that each has
// its own error; the communicator keeps them in order. A group has several communicators (lanes): for what the program calls, for messages,
// which never wait for collectives, and for what callbacks of futures call, by depth, made when the first of them calls something.
// A Work is kept by its group until it is known to be complete, so that tensors live as long as motet reads and writes them.
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/record_function.h>

#include <array>
#include <atomic>
#include <deque>
#include <list>
#include <thread>

#include "motet.h"

// Of Python, where there is one in this process.
extern "C" {
int Py_IsInitialized(void) __attribute__((weak));
int PyGILState_Check(void) __attribute__((weak));
void *PyEval_SaveThread(void) __attribute__((weak));
void PyEval_RestoreThread(void *) __attribute__((weak));
}

namespace {

using at::Tensor;
using c10d::Backend;
using c10d::OpType;
using c10d::Work;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using Tensors = std::vector<Tensor>;
template <class T> using Pointer = c10::intrusive_ptr<T>;

// While it lives, other threads of Python may run, also if this one has Python's lock.
class OthersRun {
  public:
    OthersRun()
    {
        if (Py_IsInitialized && PyGILState_Check && PyEval_SaveThread && PyEval_RestoreThread && Py_IsInitialized() && PyGILState_Check())
            saved_ = PyEval_SaveThread();
    }
    ~OthersRun()
    {
        if (saved_)
            PyEval_RestoreThread(saved_);
    }
    OthersRun(const OthersRun &) = delete;
    OthersRun &operator=(const OthersRun &) = delete;

  private:
    void *saved_ = nullptr;
};

// ---- Errors

std::string sentence(motetResult_t code)
{
    const char *text = motetGetLastError(nullptr);
    return text && *text ? text : motetGetErrorString(code);
}

// What the caller did is RuntimeError, what befell the group DistBackendError.
[[noreturn]] void fail(motetResult_t code, const std::string &text)
{
    if (code == motetInvalidArgument || code == motetInvalidUsage)
        C10_THROW_ERROR(Error, text);
    if (code == motetTimeout)
        C10_THROW_ERROR(DistBackendError, "motet: Timed out in " + text);
    C10_THROW_ERROR(DistBackendError, text);
}

void check(motetResult_t code)
{
    if (C10_UNLIKELY(code != motetSuccess))
        fail(code, sentence(code));
}

std::exception_ptr caught(motetResult_t code, const std::string &text)
{
    try {
        fail(code, text);
    } catch (...) {
        return std::current_exception();
    }
}

// ---- Types

struct Type {
    motetDataType_t type;
    size_t scale; // elements of `type` in one of torch's: more than 1 where motet only moves the bytes
};

Type typeOf(at::ScalarType type)
{
    switch (type) {
    case at::kChar: return {motetInt8, 1};
    case at::kByte: return {motetUint8, 1};
    case at::kShort: return {motetInt16, 1};
    case at::kInt: return {motetInt32, 1};
    case at::kLong: return {motetInt64, 1};
    case at::kHalf: return {motetFloat16, 1};
    case at::kBFloat16: return {motetBfloat16, 1};
    case at::kFloat: return {motetFloat32, 1};
    case at::kDouble: return {motetFloat64, 1};
    case at::kBool: return {motetBool, 1};
    case at::kComplexFloat: return {motetComplex64, 1};
    case at::kComplexDouble: return {motetComplex128, 1};
    case at::kUInt16: return {motetUint16, 1};
    case at::kUInt32: return {motetUint32, 1};
    case at::kUInt64: return {motetUint64, 1};
    case at::kFloat8_e4m3fn: return {motetFloat8e4m3, 1};
    case at::kFloat8_e5m2: return {motetFloat8e5m2, 1};
    default: return {motetUint8, c10::elementSize(type)};
    }
}

motetDataType_t reducedType(const Tensor &tensor, const char *what)
{
    Type type = typeOf(tensor.scalar_type());
    TORCH_CHECK(type.type != motetUint8 || tensor.scalar_type() == at::kByte, "motet: ", what, " cannot reduce ", tensor.scalar_type());
    return type.type;
}

// An operation of motet; PREMUL_SUM lives as long as this.
class Reduction {
  public:
    Reduction(const c10d::ReduceOp &op, const Tensor &like, motetDataType_t type, motetComm_t comm) : comm_(comm)
    {
        static constexpr motetRedOp_t ops[] = {motetSum, motetAvg, motetProd, motetMin, motetMax, motetBand, motetBor, motetBxor};
        if (op.op_ < c10d::ReduceOp::PREMUL_SUM) {
            op_ = ops[op.op_];
            return;
        }
        TORCH_CHECK(op.op_ == c10d::ReduceOp::PREMUL_SUM && op.supplement_, "motet: this ReduceOp is not known");
        auto *factor = static_cast<c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());
        Tensor scalar = factor->tensor_factor.defined() ? factor->tensor_factor.to(like.scalar_type()).contiguous()
                                                        : at::full({1}, factor->double_factor, like.options().device(at::kCPU));
        check(motetRedOpCreatePreMulSum(&op_, scalar.data_ptr(), type, motetScalarHostImmediate, comm));
        made_ = true;
    }
    ~Reduction()
    {
        if (made_)
            motetRedOpDestroy(op_, comm_);
    }
    operator motetRedOp_t() const { return op_; }

  private:
    motetRedOp_t op_ = motetSum;
    motetComm_t comm_;
    bool made_ = false;
};

// ---- Tensors

const Tensor &cpu(const Tensor &tensor)
{
    TORCH_CHECK(tensor.device().is_cpu(), "motet works on CPU tensors, not on ", tensor.device());
    return tensor;
}

const Tensor &single(const Tensors &tensors)
{
    TORCH_CHECK(tensors.size() == 1, "motet: one tensor per rank, not ", tensors.size());
    return cpu(tensors[0]);
}

bool plain(const Tensor &tensor) { return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg(); }

Tensor input(const Tensor &tensor)
{
    cpu(tensor);
    return plain(tensor) ? tensor : tensor.resolve_conj().resolve_neg().contiguous();
}

// Outputs that motet cannot write in place are written to copies, and copied when the operation is complete.
using Copies = std::vector<std::pair<Tensor, Tensor>>; // to, from

Tensor output(const Tensor &tensor, Copies &copies, bool read)
{
    if (plain(cpu(tensor)))
        return tensor;
    TORCH_CHECK(at::has_internal_overlap(tensor) != at::MemOverlap::Yes, "motet: an output whose elements share memory (expanded) cannot be written");
    Tensor copy = read ? tensor.resolve_conj().resolve_neg().contiguous() : at::empty(tensor.sizes(), tensor.options().memory_format(at::MemoryFormat::Contiguous));
    copies.emplace_back(tensor, copy);
    return copy;
}

void finishCopies(const Copies &copies)
{
    at::AutoDispatchBelowADInplaceOrView guard;
    for (auto &[to, from] : copies)
        to.copy_(from);
}

// A list of tensors as one buffer: their own memory where they follow each other, else a copy.
Tensor packed(const Tensors &list, Copies *outputs)
{
    TORCH_CHECK(!list.empty(), "motet: an empty list of tensors");
    bool follow = true;
    int64_t total = 0;
    char *next = static_cast<char *>(list[0].data_ptr());
    for (const Tensor &tensor : list) {
        cpu(tensor);
        TORCH_CHECK(tensor.scalar_type() == list[0].scalar_type(), "motet: tensors of one list must have one type, not ", list[0].scalar_type(), " and ", tensor.scalar_type());
        follow = follow && plain(tensor) && tensor.data_ptr() == next && tensor.storage().is_alias_of(list[0].storage());
        next += tensor.nbytes();
        total += tensor.numel();
    }
    if (follow)
        return at::from_blob(list[0].data_ptr(), {total}, [keep = list[0]](void *) {}, at::TensorOptions().dtype(list[0].scalar_type()));
    Tensor flat = at::empty({total}, at::TensorOptions().dtype(list[0].scalar_type()));
    int64_t start = 0;
    for (const Tensor &tensor : list) {
        Tensor part = flat.narrow(0, start, tensor.numel()).view(tensor.sizes());
        start += tensor.numel();
        if (outputs) {
            TORCH_CHECK(at::has_internal_overlap(tensor) != at::MemOverlap::Yes, "motet: an output whose elements share memory (expanded) cannot be written");
            outputs->emplace_back(tensor, part);
        } else {
            part.copy_(tensor);
        }
    }
    return flat;
}

std::vector<size_t> counts(const Tensors &list, size_t scale)
{
    std::vector<size_t> result;
    for (const Tensor &tensor : list)
        result.push_back(static_cast<size_t>(tensor.numel()) * scale);
    return result;
}

bool even(const Tensors &list)
{
    return std::all_of(list.begin(), list.end(), [&](const Tensor &tensor) { return tensor.numel() == list[0].numel(); });
}

// ---- Streams and callbacks: one pool each per process, never destroyed, since work may end while the process does

class Streams {
  public:
    motetStream_t take()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        motetStream_t stream = nullptr;
        if (free_.empty()) {
            check(motetStreamCreate(&stream));
        } else {
            stream = free_.back();
            free_.pop_back();
        }
        return stream;
    }
    void give(motetStream_t stream)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        free_.push_back(stream);
    }
    // Groups that are alive; the last one takes the idle streams with it, and the thread that drives them.
    void count(int change)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        groups_ += change;
        while (groups_ == 0 && !free_.empty()) {
            motetStreamDestroy(free_.back());
            free_.pop_back();
        }
    }
    // One that is taken, until it goes to a work or back.
    struct Taken {
        motetStream_t stream = all().take();
        ~Taken()
        {
            if (stream)
                all().give(stream);
        }
        motetStream_t release() { return std::exchange(stream, nullptr); }
    };
    static Streams &all()
    {
        static auto *streams = new Streams;
        return *streams;
    }

  private:
    std::mutex mutex_;
    std::vector<motetStream_t> free_;
    int groups_ = 0;
};

// How deep the calling thread is in callbacks: 0 is the program itself. A callback is one deeper than the code that attached it, whichever
// thread runs it: torch runs it at once, on the thread that attaches it, when the future is complete already. The Python side sets this.
thread_local int depth = 0;

// Calls of each depth have a communicator of their own, and their futures a thread of their own; those that are deeper share the last.
constexpr int kDepths = 4;

// Runs what follows a work (copies, callbacks of futures) beside motet's progress thread: one thread for each group and depth. Futures are
// completed in the order in which they were asked for, each with its callbacks before the next one; those of messages as they come. So what
// callbacks call has one order on all ranks if all callbacks of a future, and of those made from it, are attached before the next call: by
// then either none of them ran, or the first ones ran to their end and the others run where they are attached, before the next call. The
// thread ends when it has had nothing to do for a while.
class Callbacks : public std::enable_shared_from_this<Callbacks> {
  public:
    struct Job {
        std::function<void()> run;
        bool ready;
    };
    using Place = std::shared_ptr<Job>;

    Callbacks(int deep, bool ordered) : depth_(deep), ordered_(ordered) {}
    // A place in the order; it runs once it is ready.
    Place add(std::function<void()> run, bool ready)
    {
        auto job = std::make_shared<Job>(Job{std::move(run), ready});
        outstanding_++;
        std::lock_guard<std::mutex> lock(mutex_);
        jobs_.push_back(job);
        if (ready)
            wake();
        return job;
    }
    void setReady(const Place &job)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        job->ready = true;
        wake();
    }
    // Whether a future may be completed by the caller at once: all before it are, or the caller is the one who completes them.
    bool isQuiet() const { return outstanding_ == 0 || isHere(); }
    bool isHere() const { return here == this; }

  private:
    void wake()
    {
        if (!serving_)
            std::thread([self = shared_from_this()] { self->serve(); }).detach();
        serving_ = true;
        ready_.notify_one();
    }
    std::list<Place>::iterator next()
    {
        if (ordered_)
            return !jobs_.empty() && jobs_.front()->ready ? jobs_.begin() : jobs_.end();
        return std::find_if(jobs_.begin(), jobs_.end(), [](const Place &job) { return job->ready; });
    }
    void serve()
    {
        here = this;
        depth = depth_;
        std::unique_lock<std::mutex> lock(mutex_);
        while (ready_.wait_for(lock, std::chrono::seconds(5), [this] { return next() != jobs_.end(); })) {
            auto place = next();
            auto job = std::move((*place)->run);
            jobs_.erase(place);
            lock.unlock();
            job();
            job = nullptr;
            outstanding_--;
            lock.lock();
        }
        serving_ = false;
    }
    static thread_local Callbacks *here;
    std::mutex mutex_;
    std::condition_variable ready_;
    std::list<Place> jobs_;
    std::atomic<int> outstanding_{0};
    const int depth_;
    const bool ordered_;
    bool serving_ = false;
};

thread_local Callbacks *Callbacks::here = nullptr;

// ---- Work

const char *titleOf(const char *name) { return at::hasCallbacks() ? name : nullptr; }

class Running;

// What the operations of a group leave behind until they are complete.
struct Pending {
    std::mutex mutex;
    std::list<Pointer<Running>> works;
    std::atomic<int> count{0};                  // of works
    const std::shared_ptr<Callbacks> callbacks; // of these works
    Pending(int depth, bool ordered) : callbacks(std::make_shared<Callbacks>(depth + 1, ordered)) {}
};

using Output = std::variant<Tensors, std::vector<Tensors>>;

c10::IValue valueOf(const Output &output)
{
    return std::visit([](const auto &tensors) { return c10::IValue(tensors); }, output);
}

c10::TypePtr typeOf(const Output &output)
{
    auto list = c10::ListType::create(c10::TensorType::get());
    return std::holds_alternative<Tensors>(output) ? c10::TypePtr(list) : c10::TypePtr(c10::ListType::create(list));
}

// An operation that was complete when it was returned.
class Complete : public Work {
  public:
    Complete(int rank, OpType type, const char *title, uint64_t number, Output output, std::shared_ptr<Callbacks> callbacks)
        : Work(rank, type, title, std::nullopt), number_(number), output_(std::move(output)), callbacks_(std::move(callbacks)) {}
    bool isCompleted() override { return true; }
    bool isSuccess() const override { return true; }
    bool wait(milliseconds) override { return true; }
    void synchronize() override {}
    Tensors result() override
    {
        auto *flat = std::get_if<Tensors>(&output_);
        return flat ? *flat : std::get<1>(output_).empty() ? Tensors() : std::get<1>(output_)[0];
    }
    Pointer<c10::ivalue::Future> getFuture() override
    {
        return completed(typeOf(output_), valueOf(output_));
    }
    Pointer<c10::ivalue::Future> getFutureResult() override
    {
        return completed(c10::IntType::get(), static_cast<int64_t>(c10d::WorkResult::SUCCESS));
    }
    uint64_t getSequencenumber() const override { return number_; }
    float getDuration() const override { return 0; }
    void ended() { finish(); } // of the profiler's row

  private:
    Pointer<c10::ivalue::Future> completed(c10::TypePtr type, c10::IValue value)
    {
        auto future = c10::make_intrusive<c10::ivalue::Future>(std::move(type));
        if (callbacks_->isQuiet())
            future->markCompleted(std::move(value));
        else
            callbacks_->add([future, value] { future->markCompleted(value); }, true);
        return future;
    }
    uint64_t number_;
    Output output_;
    std::shared_ptr<Callbacks> callbacks_;
};

// An operation on a stream. It lands when the stream is through with it, on motet's thread; it settles on the first thread that asks.
class Running : public Work {
  public:
    Running(int rank, OpType type, const char *title, uint64_t number, std::shared_ptr<Pending> pending, motetStream_t stream)
        : Work(rank, type, title, std::nullopt), number_(number), pending_(std::move(pending)), stream_(stream), started_(Clock::now()) {}
    ~Running() override
    {
        if (stream_)
            Streams::all().give(stream_);
    }

    motetStatus_t *status() { return &status_; }

    // The call was accepted: from now on the group keeps the work.
    void begin(Output output, Tensors keep, Copies copies, milliseconds limit)
    {
        output_ = std::move(output);
        keep_ = std::move(keep);
        copies_ = std::move(copies);
        limit_ = limit;
        auto self = Pointer<Running>::reclaim_copy(this);
        {
            std::lock_guard<std::mutex> lock(pending_->mutex);
            place_ = pending_->works.insert(pending_->works.end(), self);
            pending_->count++;
        }
        check(motetLaunchHostFunc(stream_, landed, this));
    }
    void expect(size_t length) { expected_ = static_cast<int64_t>(length); }

    bool isCompleted() override
    {
        std::unique_lock<std::mutex> lock(state_);
        return landed_ && (settle(lock), true);
    }
    bool isSuccess() const override
    {
        std::lock_guard<std::mutex> lock(state_);
        return settled_ && !error_;
    }
    std::exception_ptr exception() const override
    {
        std::lock_guard<std::mutex> lock(state_);
        return error_;
    }
    bool wait(milliseconds timeout) override
    {
        std::unique_lock<std::mutex> lock(state_);
        auto done = [this] { return landed_; };
        auto limit = timeout > milliseconds(0) && (limit_ <= milliseconds(0) || timeout < limit_) ? timeout : limit_;
        if (limit <= milliseconds(0))
            arrived_.wait(lock, done);
        else if (!arrived_.wait_for(lock, limit, done))
            C10_THROW_ERROR(DistBackendError, c10::str("motet: ", c10d::opTypeToString(opType_), " #", number_, " on rank ", rank_, " : Timed out after ", limit.count(), " ms; it may still go on"));
        settle(lock);
        if (error_)
            std::rethrow_exception(error_);
        return true;
    }
    void synchronize() override { wait(milliseconds(0)); }
    void abort() override { TORCH_CHECK(false, "motet: abort the group, not one operation"); }
    Tensors result() override
    {
        auto *flat = std::get_if<Tensors>(&output_);
        return flat ? *flat : std::get<1>(output_).empty() ? Tensors() : std::get<1>(output_)[0];
    }
    int sourceRank() const override
    {
        TORCH_CHECK(opType_ == OpType::RECVANYSOURCE, "motet: the source rank is known of recvAnysource only");
        return status_.source;
    }
    Pointer<c10::ivalue::Future> getFuture() override
    {
        std::unique_lock<std::mutex> lock(state_);
        if (!future_)
            future_ = c10::make_intrusive<c10::ivalue::Future>(typeOf(output_));
        return promise(future_, lock);
    }
    Pointer<c10::ivalue::Future> getFutureResult() override
    {
        std::unique_lock<std::mutex> lock(state_);
        if (!outcome_)
            outcome_ = c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get());
        return promise(outcome_, lock);
    }
    uint64_t getSequencenumber() const override { return number_; }
    float getDuration() const override { return std::chrono::duration<float, std::milli>(ended_ - started_).count(); }

    // Lets go of works that have landed and that nobody asked about: the oldest ones, so that a call looks at few.
    static void reap(Pending &pending)
    {
        Pointer<Running> work;
        if (pending.count == 0)
            return;
        do {
            std::lock_guard<std::mutex> lock(pending.mutex);
            work = pending.works.empty() ? nullptr : pending.works.front();
        } while (work && work->isCompleted());
    }

    // Waits for all works of the group until the deadline; whether they are complete.
    static bool drain(Pending &pending, Clock::time_point deadline)
    {
        for (;;) {
            Pointer<Running> work;
            {
                std::lock_guard<std::mutex> lock(pending.mutex);
                if (pending.works.empty())
                    return true;
                work = pending.works.front();
            }
            std::unique_lock<std::mutex> lock(work->state_);
            if (!work->arrived_.wait_until(lock, deadline, [&] { return work->landed_; }))
                return false;
            work->settle(lock);
        }
    }

  private:
    // On motet's thread. The work is there: it settles only after the stream is through with this call.
    static void landed(void *context)
    {
        auto *work = static_cast<Running *>(context);
        std::lock_guard<std::mutex> lock(work->state_);
        work->landed_ = true;
        work->ended_ = Clock::now();
        work->arrived_.notify_all();
        if (work->job_)
            work->pending_->callbacks->setReady(work->job_);
        else if (!work->copies_.empty())
            work->follow();
    }

    Callbacks::Place follow()
    {
        return pending_->callbacks->add([self = Pointer<Running>::reclaim_copy(this)] { self->keep(); }, landed_);
    }

    // The future that was asked for, also when all is over. It is completed by the callbacks' thread, after those before it.
    Pointer<c10::ivalue::Future> promise(Pointer<c10::ivalue::Future> future, std::unique_lock<std::mutex> &lock)
    {
        if (pending_->callbacks->isHere()) {
            if (!landed_) {
                OthersRun others; // they hold Python's lock when they take state_: never the other way round
                arrived_.wait(lock, [this] { return landed_; });
                lock.unlock();
            }
            if (!lock.owns_lock())
                lock.lock();
            settle(lock);
            keepPromises(lock);
        } else if (!job_) {
            job_ = follow();
        }
        return future;
    }

    void keep()
    {
        std::unique_lock<std::mutex> lock(state_);
        job_ = nullptr; // whoever asks again gets another
        settle(lock);
        keepPromises(lock);
    }

    void settle(std::unique_lock<std::mutex> &lock)
    {
        if (settled_)
            return;
        // Waits for the end of landed() at most, on a thread that may hold state_ no longer.
        motetResult_t code = motetStreamSynchronize(stream_);
        if (code != motetSuccess)
            error_ = caught(code, sentence(code));
        else if (expected_ >= 0 && status_.count != static_cast<size_t>(expected_))
            error_ = caught(motetInvalidUsage, c10::str("motet: rank ", rank_, " receives ", expected_, " elements from rank ", status_.source, ", which sent ", status_.count));
        if (!error_) {
            try {
                finishCopies(copies_);
            } catch (...) {
                error_ = std::current_exception();
            }
        }
        settled_ = true;
        Streams::all().give(stream_);
        stream_ = nullptr;
        copies_.clear();
        keep_.clear();
        finish(error_); // of the base: the profiler's row
        Pointer<Running> self;
        {
            std::lock_guard<std::mutex> pendingLock(pending_->mutex);
            self = std::move(*place_);
            pending_->works.erase(place_);
            pending_->count--;
        }
        lock.unlock();
        self.reset();
        // The caller holds a reference of its own.
        lock.lock();
    }

    void keepPromises(std::unique_lock<std::mutex> &lock)
    {
        auto future = told_ ? nullptr : future_;
        auto outcome = toldOutcome_ ? nullptr : outcome_;
        told_ = told_ || future;
        toldOutcome_ = toldOutcome_ || outcome;
        if (!future && !outcome)
            return;
        auto tell = [future, outcome, error = error_, output = output_] {
            if (outcome)
                outcome->markCompleted(static_cast<int64_t>(error ? c10d::WorkResult::COMM_ERROR : c10d::WorkResult::SUCCESS));
            if (future && error)
                future->setError(error);
            else if (future)
                future->markCompleted(valueOf(output));
        };
        lock.unlock();
        tell(); // callbacks may call anything
        lock.lock();
    }

    uint64_t number_;
    std::shared_ptr<Pending> pending_;
    std::list<Pointer<Running>>::iterator place_;
    motetStream_t stream_;
    motetStatus_t status_{};
    int64_t expected_ = -1;
    Output output_;
    Tensors keep_;
    Copies copies_;
    milliseconds limit_{0};
    mutable std::mutex state_;
    std::condition_variable arrived_;
    bool landed_ = false, settled_ = false, told_ = false, toldOutcome_ = false;
    std::exception_ptr error_;
    Callbacks::Place job_; // completes the futures
    Pointer<c10::ivalue::Future> future_, outcome_;
    Clock::time_point started_, ended_;
};

// ---- Memory that local ranks map

struct SharedAllocator : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override
    {
        void *memory = nullptr;
        check(motetMemAlloc(&memory, bytes));
        return {memory, memory, release, at::Device(at::kCPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return release; }
    void copy_data(void *to, const void *from, size_t bytes) const override { default_copy_data(to, from, bytes); }
    static void release(void *memory) { motetMemFree(memory); }
};

// ---- The group

#if MOTET_TORCH >= 207
#define IS_ASYNC(options) ((options).asyncOp)
#else
#define IS_ASYNC(options) true
#endif
#if MOTET_TORCH >= 206
#define SINCE_2_6 override
#else
#define SINCE_2_6
#endif
#if MOTET_TORCH >= 210
#define SINCE_2_10 override
#else
#define SINCE_2_10
#endif

// What a group begins with.
struct Comms {
    motetComm_t program, messages;
};

class Group : public Backend {
  public:
    Group(const Comms &comms, int rank, int size, milliseconds timeout, const std::string &name)
        : Backend(rank, size), timeout_(timeout), commTimeout_(timeout), name_(name)
    {
        lanes_[PROGRAM].comm = comms.program;
        lanes_[MESSAGES].comm = comms.messages;
        for (int lane = PROGRAM; lane <= MESSAGES; lane++)
            lanes_[lane].pending = lane == MESSAGES ? std::make_shared<Pending>(0, false) : std::make_shared<Pending>(lane, true);
        Streams::all().count(1);
        init();
    }
    ~Group() override
    {
        try {
            shutdown();
        } catch (const std::exception &error) {
            TORCH_WARN("motet: group ", name_, ": ", error.what());
        }
    }

    const std::string getBackendName() const override { return "motet"; }

    // Collectives

    Pointer<Work> broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override
    {
        const Tensor &tensor = single(tensors);
        if (tensor.is_sparse())
            return broadcastSparse(tensors, options);
        int root = static_cast<int>(options.rootRank);
        Copies copies;
        Tensor memory = output(tensor, copies, true);
        if (root == rank_)
            copies.clear();
        auto [type, scale] = typeOf(memory.scalar_type());
        size_t count = static_cast<size_t>(memory.numel()) * scale;
        return launch(Call{OpType::BROADCAST, "motet:broadcast", IS_ASYNC(options), options.timeout}, tensors, {memory}, std::move(copies),
                      [&, type = type](motetStream_t stream) { return motetBroadcast(memory.data_ptr(), memory.data_ptr(), count, type, root, comm(), stream); });
    }

    Pointer<Work> allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override
    {
        const Tensor &tensor = single(tensors);
        if (tensor.is_sparse())
            return allreduce_sparse(tensors, options);
        Copies copies;
        Tensor memory = output(tensor, copies, true);
        motetDataType_t type = reducedType(memory, "all_reduce");
        Reduction op(options.reduceOp, memory, type, comm());
        return launch(Call{OpType::ALLREDUCE, "motet:all_reduce", IS_ASYNC(options), options.timeout}, tensors, {memory}, std::move(copies),
                      [&](motetStream_t stream) {
                          return motetAllReduce(memory.data_ptr(), memory.data_ptr(), static_cast<size_t>(memory.numel()), type, op, comm(), stream);
                      });
    }

    Pointer<Work> allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) override
    {
        TORCH_CHECK(!tensors.empty(), "motet: all_reduce_coalesced of no tensors");
        Copies copies;
        Tensors memory;
        std::deque<Reduction> ops;
        for (const Tensor &tensor : tensors) {
            TORCH_CHECK(!tensor.is_sparse(), "motet: all_reduce_coalesced of sparse tensors");
            memory.push_back(output(tensor, copies, true));
            ops.emplace_back(options.reduceOp, memory.back(), reducedType(memory.back(), "all_reduce_coalesced"), comm());
        }
        return launch(Call{OpType::ALLREDUCE_COALESCED, "motet:all_reduce", IS_ASYNC(options), options.timeout}, tensors, memory, std::move(copies),
                      [&](motetStream_t stream) {
                          return grouped(memory.size(), [&](size_t i) {
                              return motetAllReduce(memory[i].data_ptr(), memory[i].data_ptr(), static_cast<size_t>(memory[i].numel()),
                                                    typeOf(memory[i].scalar_type()).type, ops[i], comm(), stream);
                          });
                      });
    }

    Pointer<Work> allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) override
    {
        TORCH_CHECK(options.reduceOp.op_ == c10d::ReduceOp::SUM, "motet: sparse all_reduce supports SUM only");
        Tensor mine = single(tensors).coalesce();
        Tensor sizes = at::empty({3 + mine.dim()}, at::kLong);
        auto *head = sizes.data_ptr<int64_t>();
        head[0] = mine.sparse_dim(), head[1] = mine.dense_dim(), head[2] = mine._nnz();
        std::copy(mine.sizes().begin(), mine.sizes().end(), head + 3);
        Tensors heads = gathered(sizes), indices, values;
        for (const Tensor &other : heads) {
            TORCH_CHECK(other.slice(0, 0, 2).equal(sizes.slice(0, 0, 2)) && other.slice(0, 3).equal(sizes.slice(0, 3)), "motet: sparse all_reduce: the tensors of the ranks have different shapes");
            int64_t n = other.data_ptr<int64_t>()[2];
            indices.push_back(at::empty({n, mine.sparse_dim()}, at::kLong));
            auto shape = mine.values().sizes().vec();
            shape[0] = n;
            values.push_back(at::empty(shape, mine.values().options()));
        }
        wholly(indices, mine.indices().t().contiguous());
        wholly(values, mine.values().contiguous());
        Tensor sum = at::sparse_coo_tensor(at::cat(indices).t().contiguous(), at::cat(values), mine.sizes(), mine.options()).coalesce();
        {
            at::AutoDispatchBelowADInplaceOrView guard;
            tensors[0].copy_(sum);
        }
        return complete(Call{OpType::_ALLREDUCE_SPARSE, "motet:sparse_all_reduce", false, c10d::kUnsetTimeout}, tensors);
    }

    Pointer<Work> reduce(Tensors &tensors, const c10d::ReduceOptions &options) override
    {
        const Tensor &tensor = single(tensors);
        int root = static_cast<int>(options.rootRank);
        Copies copies;
        Tensor memory = rank_ == root ? output(tensor, copies, true) : input(tensor);
        motetDataType_t type = reducedType(memory, "reduce");
        Reduction op(options.reduceOp, memory, type, comm());
        return launch(Call{OpType::REDUCE, "motet:reduce", IS_ASYNC(options), options.timeout}, tensors, {memory}, std::move(copies),
                      [&](motetStream_t stream) {
                          return motetReduce(memory.data_ptr(), memory.data_ptr(), static_cast<size_t>(memory.numel()), type, op, root, comm(), stream);
                      });
    }

    Pointer<Work> allgather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) override
    {
        const Tensor &tensor = single(inputs);
        TORCH_CHECK(outputs.size() == 1 && outputs[0].size() == static_cast<size_t>(size_), "motet: all_gather needs an output per rank");
        TORCH_CHECK(outputs[0][0].scalar_type() == tensor.scalar_type(), "motet: all_gather: the input is ", tensor.scalar_type(), ", the outputs ", outputs[0][0].scalar_type());
        if (tensor.is_sparse())
            TORCH_CHECK(false, "motet: all_gather of sparse tensors");
        Copies copies;
        Tensor in = input(tensor), out = packed(outputs[0], &copies);
        bool equal = even(outputs[0]);
        auto [type, scale] = typeOf(in.scalar_type());
        auto lengths = counts(outputs[0], scale);
        size_t count = static_cast<size_t>(in.numel()) * scale;
        TORCH_CHECK(lengths[rank_] == count, "motet: all_gather: this rank gives ", in.numel(), " elements, its output has ", outputs[0][rank_].numel());
        return launch(Call{OpType::ALLGATHER, "motet:all_gather", IS_ASYNC(options), options.timeout}, outputs, {in, out}, std::move(copies),
                      [&, type = type](motetStream_t stream) {
                          return equal ? motetAllGather(in.data_ptr(), out.data_ptr(), count, type, comm(), stream)
                                       : motetAllGatherV(in.data_ptr(), count, out.data_ptr(), lengths.data(), nullptr, type, comm(), stream);
                      });
    }

    Pointer<Work> _allgather_base(Tensor &out, Tensor &in, const c10d::AllgatherOptions &options) override
    {
        Tensors outs{out}, ins{in};
        return gatherInto(outs, ins, Call{OpType::_ALLGATHER_BASE, "motet:_all_gather_base", IS_ASYNC(options), options.timeout});
    }

    Pointer<Work> allgather_into_tensor_coalesced(Tensors &outs, Tensors &ins, const c10d::AllgatherOptions &options) override
    {
        return gatherInto(outs, ins, Call{OpType::COALESCED, "motet:all_gather_into_tensor_coalesced", IS_ASYNC(options), options.timeout});
    }

    Pointer<Work> allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) override
    {
        TORCH_CHECK(outputs.size() == static_cast<size_t>(size_), "motet: all_gather_coalesced needs a list of outputs per rank");
        Copies copies;
        Tensors ins, outs;
        for (size_t i = 0; i < inputs.size(); i++) {
            Tensors column;
            for (auto &list : outputs) {
                TORCH_CHECK(list.size() == inputs.size() && list[i].numel() == inputs[i].numel() && list[i].scalar_type() == inputs[i].scalar_type(),
                            "motet: all_gather_coalesced: outputs must be shaped like the inputs");
                column.push_back(list[i]);
            }
            ins.push_back(input(inputs[i]));
            outs.push_back(packed(column, &copies));
        }
        Tensors keep = ins;
        keep.insert(keep.end(), outs.begin(), outs.end());
        return launch(Call{OpType::ALLGATHER_COALESCED, "motet:all_gather", IS_ASYNC(options), options.timeout}, outputs, keep, std::move(copies),
                      [&](motetStream_t stream) {
                          return grouped(ins.size(), [&](size_t i) {
                              auto [type, scale] = typeOf(ins[i].scalar_type());
                              return motetAllGather(ins[i].data_ptr(), outs[i].data_ptr(), static_cast<size_t>(ins[i].numel()) * scale, type, comm(), stream);
                          });
                      });
    }

    Pointer<Work> gather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::GatherOptions &options) override
    {
        Tensor in = input(single(inputs)), out;
        int root = static_cast<int>(options.rootRank);
        Copies copies;
        auto [type, scale] = typeOf(in.scalar_type());
        std::vector<size_t> lengths;
        if (rank_ == root) {
            TORCH_CHECK(outputs.size() == 1 && outputs[0].size() == static_cast<size_t>(size_), "motet: gather needs an output per rank at the root");
            out = packed(outputs[0], &copies);
            TORCH_CHECK(out.scalar_type() == in.scalar_type(), "motet: gather: the input is ", in.scalar_type(), ", the outputs ", out.scalar_type());
            lengths = counts(outputs[0], scale);
        } else {
            TORCH_CHECK(outputs.empty() || (outputs.size() == 1 && outputs[0].empty()), "motet: gather: outputs are the root's only");
        }
        return launch(Call{OpType::GATHER, "motet:gather", IS_ASYNC(options), options.timeout}, outputs, {in, out}, std::move(copies),
                      [&, type = type, scale = scale](motetStream_t stream) {
                          return motetGatherV(in.data_ptr(), static_cast<size_t>(in.numel()) * scale, out.defined() ? out.data_ptr() : nullptr,
                                              lengths.data(), nullptr, type, root, comm(), stream);
                      });
    }

    Pointer<Work> scatter(Tensors &outputs, std::vector<Tensors> &inputs, const c10d::ScatterOptions &options) override
    {
        Copies copies;
        Tensor out = output(single(outputs), copies, false), in;
        int root = static_cast<int>(options.rootRank);
        auto [type, scale] = typeOf(out.scalar_type());
        std::vector<size_t> lengths;
        if (rank_ == root) {
            TORCH_CHECK(inputs.size() == 1 && inputs[0].size() == static_cast<size_t>(size_), "motet: scatter needs an input per rank at the root");
            in = packed(inputs[0], nullptr);
            TORCH_CHECK(out.scalar_type() == in.scalar_type(), "motet: scatter: the inputs are ", in.scalar_type(), ", the output ", out.scalar_type());
            lengths = counts(inputs[0], scale);
        } else {
            TORCH_CHECK(inputs.empty() || (inputs.size() == 1 && inputs[0].empty()), "motet: scatter: inputs are the root's only");
        }
        return launch(Call{OpType::SCATTER, "motet:scatter", IS_ASYNC(options), options.timeout}, outputs, {in, out}, std::move(copies),
                      [&, type = type, scale = scale](motetStream_t stream) {
                          return motetScatterV(in.defined() ? in.data_ptr() : nullptr, lengths.data(), nullptr, out.data_ptr(),
                                               static_cast<size_t>(out.numel()) * scale, type, root, comm(), stream);
                      });
    }

    Pointer<Work> reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs, const c10d::ReduceScatterOptions &options) override
    {
        Copies copies;
        TORCH_CHECK(inputs.size() == 1 && inputs[0].size() == static_cast<size_t>(size_), "motet: reduce_scatter needs an input per rank");
        Tensor out = output(single(outputs), copies, false), in = packed(inputs[0], nullptr);
        TORCH_CHECK(out.scalar_type() == in.scalar_type(), "motet: reduce_scatter: the inputs are ", in.scalar_type(), ", the output ", out.scalar_type());
        TORCH_CHECK(out.numel() == inputs[0][rank_].numel(), "motet: reduce_scatter: this rank's input has ", inputs[0][rank_].numel(), " elements, the output ", out.numel());
        motetDataType_t type = reducedType(out, "reduce_scatter");
        Reduction op(options.reduceOp, out, type, comm());
        bool equal = even(inputs[0]);
        auto lengths = counts(inputs[0], 1);
        return launch(Call{OpType::REDUCE_SCATTER, "motet:reduce_scatter", IS_ASYNC(options), options.timeout}, outputs, {in, out}, std::move(copies),
                      [&](motetStream_t stream) {
                          return equal ? motetReduceScatter(in.data_ptr(), out.data_ptr(), lengths[0], type, op, comm(), stream)
                                       : motetReduceScatterV(in.data_ptr(), out.data_ptr(), lengths.data(), type, op, comm(), stream);
                      });
    }

    Pointer<Work> _reduce_scatter_base(Tensor &out, Tensor &in, const c10d::ReduceScatterOptions &options) override
    {
        Tensors outs{out}, ins{in};
        return reduceInto(outs, ins, options.reduceOp, Call{OpType::_REDUCE_SCATTER_BASE, "motet:_reduce_scatter_base", IS_ASYNC(options), options.timeout});
    }

    Pointer<Work> reduce_scatter_tensor_coalesced(Tensors &outs, Tensors &ins, const c10d::ReduceScatterOptions &options) override
    {
        return reduceInto(outs, ins, options.reduceOp, Call{OpType::COALESCED, "motet:reduce_scatter_tensor_coalesced", IS_ASYNC(options), options.timeout});
    }

    Pointer<Work> alltoall_base(Tensor &out, Tensor &in, std::vector<int64_t> &outSplits, std::vector<int64_t> &inSplits,
                                const c10d::AllToAllOptions &options) override
    {
        Copies copies;
        Tensor from = input(in), to = output(out, copies, false);
        TORCH_CHECK(from.scalar_type() == to.scalar_type(), "motet: all_to_all: the input is ", from.scalar_type(), ", the output ", to.scalar_type());
        auto [type, scale] = typeOf(from.scalar_type());
        auto sent = splits(from, inSplits, scale, "input"), received = splits(to, outSplits, scale, "output");
        return launch(Call{OpType::ALLTOALL_BASE, "motet:all_to_all", IS_ASYNC(options), options.timeout}, Tensors{out}, {from, to}, std::move(copies),
                      [&, type = type](motetStream_t stream) {
                          return motetAlltoAllV(from.data_ptr(), sent.data(), nullptr, to.data_ptr(), received.data(), nullptr, type, comm(), stream);
                      });
    }

    Pointer<Work> alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) override
    {
        TORCH_CHECK(outputs.size() == static_cast<size_t>(size_) && inputs.size() == static_cast<size_t>(size_), "motet: all_to_all needs an input and an output per rank");
        Copies copies;
        Tensor from = packed(inputs, nullptr), to = packed(outputs, &copies);
        TORCH_CHECK(from.scalar_type() == to.scalar_type(), "motet: all_to_all: the inputs are ", from.scalar_type(), ", the outputs ", to.scalar_type());
        auto [type, scale] = typeOf(from.scalar_type());
        auto sent = counts(inputs, scale), received = counts(outputs, scale);
        return launch(Call{OpType::ALLTOALL, "motet:all_to_all", IS_ASYNC(options), options.timeout}, outputs, {from, to}, std::move(copies),
                      [&, type = type](motetStream_t stream) {
                          return motetAlltoAllV(from.data_ptr(), sent.data(), nullptr, to.data_ptr(), received.data(), nullptr, type, comm(), stream);
                      });
    }

    Pointer<Work> barrier(const c10d::BarrierOptions &options) override
    {
        return launch(Call{OpType::BARRIER, "motet:barrier", IS_ASYNC(options), options.timeout}, Tensors{}, {}, {},
                      [&](motetStream_t stream) { return motetBarrier(comm(), stream); });
    }

    // Rank 0 hears from every other rank, then answers; whoever is missing is named.
    void monitoredBarrier(const c10d::BarrierOptions &options, bool allRanks) override
    {
        milliseconds limit = options.timeout == c10d::kUnsetTimeout ? milliseconds(timeout_) : options.timeout;
        auto deadline = Clock::now() + limit;
        auto left = [&] { return std::max(std::chrono::duration_cast<milliseconds>(deadline - Clock::now()), milliseconds(1)); };
        Tensors word{at::zeros({1}, at::kByte)};
        if (rank_ != 0) {
            send(word, 0, kMonitorTag)->wait(left());
            try {
                Tensors answer{at::zeros({1}, at::kByte)};
                recv(answer, 0, kMonitorTag)->wait(left());
            } catch (const c10::Error &error) {
                C10_THROW_ERROR(DistBackendError, c10::str("Rank ", rank_, " successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0: ", error.what_without_backtrace()));
            }
            return;
        }
        std::string missing;
        std::vector<Pointer<Work>> words;
        for (int rank = 1; rank < size_; rank++) {
            Tensors other{at::zeros({1}, at::kByte)};
            words.push_back(recv(other, rank, kMonitorTag));
        }
        for (int rank = 1; rank < size_; rank++)
            try {
                TORCH_CHECK(limit > milliseconds(0), "Rank 0 timed out in monitoredBarrier");
                words[rank - 1]->wait(left());
            } catch (const c10::Error &error) {
                missing += c10::str(missing.empty() ? "" : ", ", "Rank ", rank);
                if (!allRanks || limit <= milliseconds(0))
                    C10_THROW_ERROR(DistBackendError, c10::str("Rank 0 timed out in monitoredBarrier: ", missing, " failed to pass monitoredBarrier in ", limit.count(), " ms: ", error.what_without_backtrace()));
            }
        TORCH_CHECK(missing.empty(), "Rank 0 timed out in monitoredBarrier: ", missing, " failed to pass monitoredBarrier in ", limit.count(), " ms");
        for (int rank = 1; rank < size_; rank++)
            send(word, rank, kMonitorTag)->wait();
    }

    // Messages

    Pointer<Work> send(Tensors &tensors, int to, int tag) override
    {
        Tensor memory = input(single(tensors));
        auto [type, scale] = typeOf(memory.scalar_type());
        return launch(Call{OpType::SEND, "motet:send", true, c10d::kUnsetTimeout}, tensors, {memory}, {},
                      [&, type = type, scale = scale](motetStream_t stream) {
                          return motetSendTag(memory.data_ptr(), static_cast<size_t>(memory.numel()) * scale, type, to, tag, lanes_[MESSAGES].comm, stream);
                      });
    }

    Pointer<Work> recv(Tensors &tensors, int from, int tag) override { return receive(OpType::RECV, "motet:recv", tensors, from, tag); }

    Pointer<Work> recvAnysource(Tensors &tensors, int tag) override
    {
        return receive(OpType::RECVANYSOURCE, "motet:recvAnySource", tensors, MOTET_ANY_SOURCE, tag);
    }

    // Life

    void setSequenceNumberForGroup() override {}
    uint64_t getSequenceNumberForGroup() override { return number_; }
    void setTimeout(milliseconds timeout) SINCE_2_6 { timeout_ = timeout; }

    Pointer<Options> getBackendOptions() SINCE_2_6
    {
        auto options = c10::make_intrusive<Options>("motet", timeout_);
        return options;
    }

    bool supportsSplitting() const override { return true; }

    // Called by all ranks of this group; nothing for those that are not in `ranks`.
    Pointer<Backend> split(const Pointer<c10d::Store> &, const std::vector<int> &ranks, const Pointer<Options> &options) SINCE_2_10
    {
        auto place = std::find(ranks.begin(), ranks.end(), rank_);
        int color = place == ranks.end() ? MOTET_SPLIT_NOCOLOR : 0, key = static_cast<int>(place - ranks.begin());
        milliseconds timeout = options ? options->timeout : milliseconds(timeout_);
        return divided(timeout, name_, ranks.size(), key, [&](motetComm_t comm, motetComm_t *made, motetConfig_t *config) {
            return motetCommSplit(comm, color, key, made, config);
        });
    }

    bool supportsShrinking() const SINCE_2_10 { return true; }

    Pointer<Backend> shrink(const std::vector<int64_t> &excluded, int flags, const Pointer<Options> &options) SINCE_2_10
    {
        std::vector<int> ranks(excluded.begin(), excluded.end());
        int before = static_cast<int>(std::count_if(ranks.begin(), ranks.end(), [this](int rank) { return rank < rank_; }));
        milliseconds timeout = options ? options->timeout : milliseconds(timeout_);
        return divided(timeout, name_, size_ - ranks.size(), rank_ - before, [&](motetComm_t comm, motetComm_t *made, motetConfig_t *config) {
            return motetCommShrink(comm, ranks.data(), static_cast<int>(ranks.size()), made, config, flags ? MOTET_SHRINK_ABORT : MOTET_SHRINK_DEFAULT);
        });
    }

    void shutdown() SINCE_2_6
    {
        // A rank that has called all it wants to call may still be needed: what it sent is taken by others in their own time.
        auto deadline = Clock::now() + std::min<milliseconds>(timeout_, std::chrono::seconds(10));
        end(!ended_ && drain(deadline));
    }

    void abort() SINCE_2_6 { end(false); }

    c10d::ErrorType getError() SINCE_2_6
    {
        motetResult_t code = ended_ ? motetInvalidUsage : motetSuccess;
        for (Lane &lane : lanes_) {
            std::lock_guard<std::mutex> lock(lane.call);
            if (lane.comm && (code == motetSuccess || code == motetInProgress))
                motetCommGetAsyncError(lane.comm, &code);
        }
        return code == motetSuccess || code == motetInProgress ? c10d::ErrorType::SUCCESS
               : code == motetTimeout                          ? c10d::ErrorType::TIMEOUT
               : code == motetRemoteError                      ? c10d::ErrorType::REMOTE_ERROR
                                                               : c10d::ErrorType::COMM_ERROR;
    }

    std::shared_ptr<c10::Allocator> getMemAllocator() SINCE_2_6
    {
        static auto allocator = std::make_shared<SharedAllocator>();
        return allocator;
    }
    bool supportsTensorAlloc(c10::DeviceIndex) SINCE_2_10 { return true; }
    Tensor allocateTensor(long size, at::TensorOptions options) SINCE_2_10
    {
        void *memory = nullptr;
        check(motetMemAlloc(&memory, static_cast<size_t>(size) * options.dtype().itemsize()));
        return at::from_blob(memory, {size}, SharedAllocator::release, options.device(at::kCPU));
    }

    // The communicators of a group of some of the ranks, made by those alone and beside what runs in this group.
    Comms subset(const std::vector<int> &ranks, milliseconds timeout, const std::string &name)
    {
        Comms made{};
        motetResult_t code = subsetOf(ranks, timeout, name, "", &made.program);
        if (code == motetSuccess)
            code = subsetOf(ranks, timeout, name, " messages", &made.messages);
        if (code != motetSuccess) {
            std::string text = sentence(code);
            if (made.program)
                motetCommAbort(made.program);
            fail(code, "motet: group " + name + ": " + text);
        }
        return made;
    }

  private:
    static constexpr int kMonitorTag = 0x7fffff01; // beyond tags of programs
    enum { PROGRAM = 0, MESSAGES = kDepths }; // between them those of callbacks, by depth
    struct Lane {
        std::atomic<motetComm_t> comm = nullptr;
        std::mutex call; // motet takes one call at a time per communicator
        std::shared_ptr<Pending> pending;
    };

    struct Call {
        OpType type;
        const char *title;
        bool async;
        milliseconds timeout;
    };

    // Does `call(stream)`: here, or on a stream. keep: what must live as long as it runs, beside the output.
    template <class Function> Pointer<Work> launch(const Call &call, Output output, Tensors keep, Copies copies, Function function)
    {
        bool message = call.type == OpType::SEND || call.type == OpType::RECV || call.type == OpType::RECVANYSOURCE;
        milliseconds limit = call.timeout == c10d::kUnsetTimeout || call.timeout <= milliseconds(0) ? milliseconds(timeout_) : call.timeout;
        bool here = !call.async && limit == commTimeout_; // the communicator itself knows one limit
        Lane &lane = message ? lanes_[MESSAGES] : lanes_[laneHere()];
        Running::reap(*lane.pending);
        std::lock_guard<std::mutex> lock(lane.call);
        TORCH_CHECK(!ended_, "motet: group ", name_, " was ended");
        uint64_t number = ++number_;
        constexpr bool receives = std::is_invocable_v<Function, motetStream_t, Running &>;
        if constexpr (!receives) if (here) {
            auto work = c10::make_intrusive<Complete>(rank_, call.type, titleOf(call.title), number, std::move(output), lane.pending->callbacks);
            accept(function(nullptr), lane);
            if (C10_UNLIKELY(!copies.empty()))
                finishCopies(copies);
            work->ended();
            return work;
        }
        Streams::Taken taken;
        motetStream_t stream = taken.stream;
        bool called = false;
        // Small operations are often complete when the call returns: there is nothing to wait for, and nobody to hear of it.
        if constexpr (!receives) if (!message && limit == commTimeout_ && copies.empty() && !at::hasCallbacks()) {
            accept(function(stream), lane);
            called = true;
            if (motetStreamQuery(stream) == motetSuccess)
                return c10::make_intrusive<Complete>(rank_, call.type, nullptr, number, std::move(output), lane.pending->callbacks);
        }
        auto work = c10::make_intrusive<Running>(rank_, call.type, titleOf(call.title), number, lane.pending, taken.release());
        if constexpr (receives)
            accept(function(stream, *work), lane);
        else if (!called)
            accept(function(stream), lane);
        work->begin(std::move(output), std::move(keep), std::move(copies), limit == commTimeout_ ? milliseconds(0) : limit);
        if (!call.async)
            work->wait(milliseconds(0));
        return work;
    }

    // What went wrong first, in another lane of the group, is the reason why this one ends.
    void accept(motetResult_t code, const Lane &lane)
    {
        if (C10_LIKELY(code == motetSuccess))
            return;
        std::string text = sentence(code);
        for (Lane &other : lanes_) {
            motetResult_t theirs = motetSuccess;
            if (code == motetInvalidArgument || &other == &lane || !other.comm || motetCommGetAsyncError(other.comm, &theirs) != motetSuccess)
                continue;
            const char *reason = theirs != motetSuccess && theirs != motetInProgress ? motetGetLastError(other.comm) : "";
            if (*reason && !strstr(reason, "revoked"))
                fail(theirs, reason);
        }
        fail(code, text);
    }

    Pointer<Work> complete(const Call &call, Output output)
    {
        auto work = c10::make_intrusive<Complete>(rank_, call.type, titleOf(call.title), ++number_, std::move(output), lanes_[laneHere()].pending->callbacks);
        work->ended();
        return work;
    }

    template <class Function> static motetResult_t grouped(size_t n, Function function)
    {
        motetResult_t result = motetGroupStart();
        for (size_t i = 0; i < n && result == motetSuccess; i++)
            result = function(i);
        motetResult_t ended = motetGroupEnd();
        return result != motetSuccess ? result : ended;
    }

    Pointer<Work> gatherInto(Tensors &outs, Tensors &ins, const Call &call)
    {
        TORCH_CHECK(outs.size() == ins.size(), "motet: all_gather_into_tensor: ", ins.size(), " inputs, ", outs.size(), " outputs");
        Copies copies;
        Tensors from, to;
        for (size_t i = 0; i < ins.size(); i++) {
            from.push_back(input(ins[i]));
            to.push_back(output(outs[i], copies, false));
            TORCH_CHECK(from[i].scalar_type() == to[i].scalar_type(), "motet: all_gather_into_tensor: the input is ", from[i].scalar_type(), ", the output ", to[i].scalar_type());
            TORCH_CHECK(to[i].numel() == from[i].numel() * size_, "motet: all_gather_into_tensor of ", size_, " ranks: the input has ", from[i].numel(), " elements, the output ", to[i].numel());
        }
        auto one = [&](size_t i, motetStream_t stream) {
            auto [type, scale] = typeOf(from[i].scalar_type());
            return motetAllGather(from[i].data_ptr(), to[i].data_ptr(), static_cast<size_t>(from[i].numel()) * scale, type, comm(), stream);
        };
        return both(call, outs, from, to, std::move(copies), one);
    }

    Pointer<Work> reduceInto(Tensors &outs, Tensors &ins, const c10d::ReduceOp &reduceOp, const Call &call)
    {
        TORCH_CHECK(outs.size() == ins.size(), "motet: reduce_scatter_tensor: ", ins.size(), " inputs, ", outs.size(), " outputs");
        Copies copies;
        Tensors from, to;
        std::deque<Reduction> ops;
        for (size_t i = 0; i < ins.size(); i++) {
            from.push_back(input(ins[i]));
            to.push_back(output(outs[i], copies, false));
            TORCH_CHECK(from[i].scalar_type() == to[i].scalar_type(), "motet: reduce_scatter_tensor: the input is ", from[i].scalar_type(), ", the output ", to[i].scalar_type());
            TORCH_CHECK(from[i].numel() == to[i].numel() * size_, "motet: reduce_scatter_tensor of ", size_, " ranks: the input has ", from[i].numel(), " elements, the output ", to[i].numel());
            ops.emplace_back(reduceOp, to[i], reducedType(to[i], "reduce_scatter_tensor"), comm());
        }
        auto one = [&](size_t i, motetStream_t stream) {
            return motetReduceScatter(from[i].data_ptr(), to[i].data_ptr(), static_cast<size_t>(to[i].numel()), typeOf(to[i].scalar_type()).type, ops[i], comm(), stream);
        };
        return both(call, outs, from, to, std::move(copies), one);
    }

    // One operation, or several as a group.
    template <class Function>
    Pointer<Work> both(const Call &call, Tensors &outs, const Tensors &from, const Tensors &to, Copies copies, Function one)
    {
        Tensors keep = from;
        keep.insert(keep.end(), to.begin(), to.end());
        return launch(call, outs, std::move(keep), std::move(copies), [&](motetStream_t stream) {
            return from.size() == 1 ? one(0, stream) : grouped(from.size(), [&](size_t i) { return one(i, stream); });
        });
    }

    // Elements by rank, from rows by rank; none given: equal.
    std::vector<size_t> splits(const Tensor &tensor, const std::vector<int64_t> &rows, size_t scale, const char *what) const
    {
        if (rows.empty()) {
            TORCH_CHECK(tensor.numel() == 0 || (tensor.dim() > 0 && tensor.size(0) % size_ == 0), "motet: all_to_all: the ", what, "'s dim 0 does not divide equally across ", size_, " ranks");
            return std::vector<size_t>(size_, static_cast<size_t>(tensor.numel() / size_) * scale);
        }
        int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t{0}), have = tensor.dim() > 0 ? tensor.size(0) : 1;
        TORCH_CHECK(rows.size() == static_cast<size_t>(size_) && all == have, "motet: all_to_all: ", rows.size(), " ", what, " splits of ", all, " rows; there are ", size_, " ranks and ", have, " rows");
        for (int64_t n : rows)
            TORCH_CHECK(n >= 0, "motet: all_to_all: a negative ", what, " split, ", n);
        std::vector<size_t> result;
        size_t row = have ? static_cast<size_t>(tensor.numel() / have) * scale : 0;
        for (int64_t n : rows)
            result.push_back(static_cast<size_t>(n) * row);
        return result;
    }

    Pointer<Work> receive(OpType type, const char *title, Tensors &tensors, int from, int tag)
    {
        Copies copies;
        Tensor memory = output(single(tensors), copies, false);
        auto [element, scale] = typeOf(memory.scalar_type());
        size_t count = static_cast<size_t>(memory.numel()) * scale;
        return launch(Call{type, title, true, c10d::kUnsetTimeout}, tensors, {memory}, std::move(copies), [&, element = element](motetStream_t stream, Running &work) {
            work.expect(count);
            return motetRecvTag(memory.data_ptr(), count, element, from, tag, work.status(), lanes_[MESSAGES].comm, stream);
        });
    }

    // For operations made of several: on the caller's thread, complete on return.
    Tensors gathered(const Tensor &tensor)
    {
        Tensors list;
        for (int rank = 0; rank < size_; rank++)
            list.push_back(at::empty_like(tensor));
        wholly(list, tensor);
        return list;
    }
    void wholly(Tensors &list, const Tensor &tensor)
    {
        std::vector<Tensors> outputs{list};
        Tensors inputs{tensor};
        c10d::AllgatherOptions options;
        allgather(outputs, inputs, options)->wait();
    }

    Pointer<Work> broadcastSparse(Tensors &tensors, const c10d::BroadcastOptions &options)
    {
        Tensor mine = tensors[0].coalesce();
        c10d::BroadcastOptions plainly;
        plainly.rootRank = options.rootRank;
        auto everywhere = [&](Tensor tensor) {
            Tensors list{tensor};
            broadcast(list, plainly)->wait();
            return tensor;
        };
        int64_t n = everywhere(at::full({1}, mine._nnz(), at::kLong)).item<int64_t>();
        bool root = rank_ == options.rootRank;
        auto shape = mine.values().sizes().vec();
        shape[0] = n;
        Tensor indices = everywhere(root ? mine.indices().contiguous() : at::empty({mine.sparse_dim(), n}, at::kLong));
        Tensor values = everywhere(root ? mine.values().contiguous() : at::empty(shape, mine.values().options()));
        if (!root) {
            at::AutoDispatchBelowADInplaceOrView guard;
            tensors[0].copy_(at::sparse_coo_tensor(indices, values, mine.sizes(), mine.options()));
        }
        return complete(Call{OpType::BROADCAST, "motet:broadcast", false, c10d::kUnsetTimeout}, tensors);
    }

    // Other threads may be calling meanwhile; the lane for messages is always there.
    motetResult_t subsetOf(const std::vector<int> &ranks, milliseconds timeout, const std::string &name, const std::string &suffix, motetComm_t *made)
    {
        std::string laneName = name.substr(0, 40) + suffix, tag = name + suffix;
        motetConfig_t config = MOTET_CONFIG_INITIALIZER;
        config.commName = laneName.c_str();
        config.timeoutMs = config.initTimeoutMs = static_cast<int>(std::min<int64_t>(timeout.count(), INT_MAX));
        TORCH_CHECK(!ended_, "motet: group ", name_, " was ended");
        return motetCommSubset(lanes_[MESSAGES].comm, ranks.data(), static_cast<int>(ranks.size()), tag.c_str(), made, &config);
    }

    // A group of some of the ranks, by a function that makes a communicator from one of this group's.
    template <class Function>
    Pointer<Backend> divided(milliseconds timeout, const std::string &name, size_t size, int rank, Function divide)
    {
        motetConfig_t config = MOTET_CONFIG_INITIALIZER;
        config.timeoutMs = static_cast<int>(std::min<int64_t>(timeout.count(), INT_MAX));
        Comms made{};
        std::scoped_lock lock(lanes_[PROGRAM].call, lanes_[MESSAGES].call);
        TORCH_CHECK(!ended_, "motet: group ", name_, " was ended");
        motetResult_t code = divide(lanes_[PROGRAM].comm, &made.program, &config);
        if (code == motetSuccess)
            code = divide(lanes_[MESSAGES].comm, &made.messages, &config);
        if (code != motetSuccess) {
            std::string text = sentence(code);
            if (made.program)
                motetCommAbort(made.program);
            fail(code, text);
        }
        if (!made.program)
            return nullptr;
        return c10::make_intrusive<Group>(made, rank, static_cast<int>(size), timeout, name);
    }

    // Frees the communicators, once. Calls of other threads end first: revoking wakes them, and abort whoever makes a lane.
    void end(bool complete)
    {
        if (ended_.exchange(true))
            return;
        if (!complete) {
            for (Lane &lane : lanes_)
                if (lane.comm)
                    motetCommRevoke(lane.comm, MOTET_REVOKE_DEFAULT);
            motetCommAbort(__atomic_load_n(&half_, __ATOMIC_ACQUIRE));
            drain(Clock::now() + std::chrono::seconds(10));
        }
        std::lock_guard<std::mutex> making(making_);
        for (Lane &lane : lanes_) {
            std::lock_guard<std::mutex> lock(lane.call);
            motetComm_t comm = lane.comm.exchange(nullptr);
            if (comm)
                complete ? motetCommDestroy(comm) : motetCommAbort(comm);
        }
        Streams::all().count(-1);
    }

    bool drain(Clock::time_point deadline)
    {
        return std::all_of(lanes_.begin(), lanes_.end(), [&](Lane &lane) { return Running::drain(*lane.pending, deadline); });
    }

    // A communicator with its order of calls. What callbacks call has an order of its own: when they run differs from rank to rank.
    motetComm_t comm()
    {
        return C10_LIKELY(depth == 0) ? lanes_[PROGRAM].comm.load(std::memory_order_relaxed) : callbacksComm();
    }

    static int laneHere() { return std::min(depth, kDepths - 1); }

    motetComm_t callbacksComm()
    {
        std::lock_guard<std::mutex> lock(making_);
        std::atomic<motetComm_t> &comm = lanes_[laneHere()].comm;
        if (!comm) {
            std::vector<int> all(size_);
            std::iota(all.begin(), all.end(), 0);
            motetResult_t code = subsetOf(all, commTimeout_, name_, c10::str(" callbacks ", laneHere()), &half_);
            comm = half_;
            __atomic_store_n(&half_, nullptr, __ATOMIC_RELEASE);
            check(code);
        }
        return comm;
    }

    std::array<Lane, MESSAGES + 1> lanes_;
    std::mutex making_;           // lanes of callbacks
    motetComm_t half_ = nullptr; // the one that is made
    std::atomic<milliseconds> timeout_;
    const milliseconds commTimeout_;
    const std::string name_;
    std::atomic<uint64_t> number_{0};
    std::atomic<bool> ended_{false};
};

void setBackend(const Pointer<c10d::ProcessGroup> &group, const Comms &comms, int64_t timeout_ms, const std::string &name)
{
    auto backend = c10::make_intrusive<Group>(comms, group->getRank(), group->getSize(), milliseconds(timeout_ms), name);
    group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM, backend);
}

// Gives a process group its backend, over communicators that were made for it.
void attach(const Pointer<c10d::ProcessGroup> &group, int64_t program, int64_t messages, int64_t timeout_ms, std::string name)
{
    setBackend(group, {reinterpret_cast<motetComm_t>(program), reinterpret_cast<motetComm_t>(messages)}, timeout_ms, name);
}

// The same for `ranks` of a group of all ranks, which all call this. False: that group is not motet's, here as on all of them.
bool attachSubset(const Pointer<c10d::ProcessGroup> &group, const Pointer<c10d::ProcessGroup> &world, std::vector<int64_t> ranks,
                  int64_t timeout_ms, std::string name)
{
    auto *whole = dynamic_cast<Group *>(world->getBackend(c10::DeviceType::CPU).get());
    if (!whole)
        return false;
    setBackend(group, whole->subset({ranks.begin(), ranks.end()}, milliseconds(timeout_ms), name), timeout_ms, name);
    return true;
}

} // namespace

// For callbacks: the depth of the calling thread.
extern "C" __attribute__((visibility("default"))) int motet_torch_depth(void) { return depth; }

// Sets it, and returns what it was.
extern "C" __attribute__((visibility("default"))) int motet_torch_set_depth(int deep)
{
    return std::exchange(depth, deep);
}

TORCH_LIBRARY_FRAGMENT(motet, library)
{
    library.def("attach", attach);
    library.def("attach_subset", attachSubset);
}
